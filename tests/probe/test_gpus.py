"""GPU samples without NVML: recorded output, complaints of the driver, and machines without GPU."""

import ctypes
import os
import stat
from pathlib import Path

import pytest

from orchestrator.link.answers import wrong_answer
from orchestrator.probe import gpus, smi
from orchestrator.probe.frames import Frame
from orchestrator.probe.gpus import is_free

CAPTURES = Path(__file__).parent.parent / "captures" / "nvidia_smi"
MIB = 1024 * 1024


def install(folder: Path, text: str, status: int = 0, lacks: str = "no such column") -> None:
    """A stand-in for nvidia-smi that plays a text; asked for a column that it `lacks`, it refuses.

    What it says then, and its status, are those of driver 580.
    """
    (folder / "said.txt").write_text(text)
    program = folder / "nvidia-smi"
    program.write_text(
        f"#!/bin/sh\ncase $* in\n*{lacks!r}*)\n"
        f"  printf 'Field \"%s\" is not a valid field to query.\\n\\n' '{lacks}'; exit 2;;\n"
        f"*) cat {folder}/said.txt; exit {status};;\nesac\n"
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)


def nothing(_frame: object) -> None:
    """No progress is wanted."""


def sample_gpus() -> Frame:
    """One round, which the other end of the link takes."""
    frame = gpus.sample_gpus({}, nothing)
    assert wrong_answer("gpus", frame) is None
    return frame


@pytest.fixture
def without_nvml() -> None:
    """These tests are about machines that have no NVIDIA driver."""
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return
    pytest.skip("this machine has an NVIDIA driver")


@pytest.fixture
def path(without_nvml: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that comes first in PATH."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return tmp_path


def test_a_recorded_h200_is_read() -> None:
    """The rows of a real driver 580, units and all."""
    samples = smi.parse((CAPTURES / "h200-query.txt").read_text())
    assert [sample["index"] for sample in samples] == [0, 1]
    assert samples[0] == {
        "index": 0,
        "uuid": "GPU-00000000-0000-0000-0000-435277865995",
        "name": "NVIDIA H200",
        "memory_used_bytes": 0,
        "memory_total_bytes": 143771 * MIB,
        "utilization_percent": 0.0,
        "power_w": 86.54,
        "temperature_c": 40.0,
        "processes": [],
        "extra": {
            "pci": "00000000:00:06.0",
            "power_limit_w": 700.0,
            "sm_clock_mhz": 375,
            "memory_clock_mhz": 3201,
            "throttle_reasons": 1,
            "ecc_corrected": 0,
            "ecc_uncorrected": 0,
            "mig": False,
        },
    }


def test_what_a_gpu_does_not_say_is_none() -> None:
    """`[N/A]`, `[Not Supported]`, `ERR!` and a lost GPU are no zeros."""
    samples = smi.parse((CAPTURES / "unknown-values.txt").read_text())
    assert [sample["memory_used_bytes"] for sample in samples] == [None, 11 * MIB, None]
    assert [sample["power_w"] for sample in samples] == [None, None, None]
    assert samples[1]["utilization_percent"] is None
    assert samples[1]["extra"]["sm_clock_mhz"] == 208
    assert "ecc_uncorrected" not in samples[1]["extra"]
    assert samples[2]["extra"] == {"error": "GPU is lost"}


def test_nvidia_smi_is_asked_where_nvml_is_not_there(path: Path) -> None:
    """The source is said, so that nobody takes the one for the other."""
    install(path, (CAPTURES / "h200-query.txt").read_text())
    frame = sample_gpus()
    assert (frame["source"], len(frame["samples"]), frame["error"]) == ("nvidia-smi", 2, None)


def test_a_driver_mismatch_is_an_error_and_no_sample(path: Path) -> None:
    """The driver's own sentence is passed on."""
    install(path, (CAPTURES / "driver-mismatch.txt").read_text(), status=18)
    frame = sample_gpus()
    assert frame["samples"] == []
    assert "Driver/library version mismatch" in frame["error"]


def test_rows_and_complaint_of_one_call_are_both_kept(path: Path) -> None:
    """One lost GPU does not hide the others."""
    install(path, (CAPTURES / "lost-gpu.txt").read_text(), status=15)
    frame = sample_gpus()
    assert [sample["index"] for sample in frame["samples"]] == [0]
    assert "GPU is lost" in frame["error"]


def test_columns_that_an_old_driver_does_not_know_are_left_out(path: Path) -> None:
    """It refuses the whole question for one; the rest is asked again."""
    text = (CAPTURES / "driver-390-k80.txt").read_text()
    install(path, text, lacks="mig.mode.current")
    frame = sample_gpus()
    assert frame["error"] is None
    idle, busy = frame["samples"]
    assert (idle["power_w"], busy["extra"]["ecc_uncorrected"]) == (26.33, 1)
    assert (is_free(idle), is_free({**busy, "memory_used_bytes": 9_000 * MIB})) == (True, False)
    assert "mig" not in idle["extra"]


def test_a_machine_without_gpus_is_no_error(
    without_nvml: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No library, no nvidia-smi: an empty list, and no source."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert sample_gpus() == {"source": None, "samples": [], "error": None}
