"""GPU samples by NVML, against a stand-in for the driver's library in C, of several ages."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestrator.link.answers import wrong_answer
from orchestrator.probe.gpus import is_free
from orchestrator.probe.on_gpu import unpacked
from tests.lab import driver
from tests.lab.gpus import GpuProcess, Gpus, MigDevice

MIB = 1024 * 1024
RESERVE = 615 * MIB
CAPTURES = Path(__file__).parent.parent / "captures" / "nvml"
LOOP = """
import json, sys
from orchestrator.probe import gpus
gpus.ANSWER_WITHIN_S = 0.5
for line in sys.stdin:
    print(json.dumps(gpus.sample_gpus(json.loads(line), None)), flush=True)
"""


class Sampler:
    """A program of its own that samples when it is told; it opens the library once."""

    def __init__(self, library: Path, samples: Path) -> None:
        env = {
            **os.environ,
            "LD_LIBRARY_PATH": str(library.parent),
            "ORCH_LAB_GPU_SAMPLES": str(samples),
        }
        self.popen = subprocess.Popen(
            [sys.executable, "-c", LOOP],
            env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def sample(self) -> dict[str, Any]:
        """One round."""
        assert self.popen.stdin is not None
        self.popen.stdin.write('{"host": true}\n')
        self.popen.stdin.flush()
        assert self.popen.stdout is not None
        frame: dict[str, Any] = json.loads(self.popen.stdout.readline())
        assert wrong_answer("gpus", frame) is None
        return frame

    def close(self) -> None:
        """End it."""
        self.popen.kill()
        self.popen.communicate()


MakeSampler = Callable[..., Sampler]


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the stand-ins are built, once."""
    return tmp_path_factory.mktemp("nvml")


@pytest.fixture
def gpus(tmp_path: Path) -> Gpus:
    """Two idle GPUs."""
    found = Gpus(tmp_path)
    found.set_idle(2)
    return found


@pytest.fixture
def sampler(built: Path, tmp_path: Path, gpus: Gpus) -> Iterator[MakeSampler]:
    """`sampler(470)` samples with the library of that driver."""
    made: list[Sampler] = []

    def make(version: int = 580) -> Sampler:
        made.append(Sampler(driver.build(built, version), tmp_path / "samples"))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_everything_of_a_gpu_is_told(gpus: Gpus, sampler: MakeSampler) -> None:
    """Memory without the driver's reserve, and what wears or slows it down."""
    gpus.set(
        0, memory_used=70_000, utilization_gpu=97, power_draw=612.25, temperature_gpu=71,
        ecc_errors_uncorrected_volatile_total=2, remapped_rows_uncorrectable=1,
        nvlink_replay=7, pcie_replays=3, clocks_throttle_reasons_active="0x0000000000000008",
    )  # fmt: skip
    frame = sampler().sample()
    assert (frame["source"], frame["error"]) == ("nvml", None)
    first = frame["samples"][0]
    assert first["memory_used_bytes"] == 70_000 * MIB
    assert first["memory_total_bytes"] == 143_771 * MIB
    told = (first["utilization_percent"], first["power_w"], first["temperature_c"])
    assert told == (97.0, 612.25, 71)
    extra = first["extra"]
    assert (extra["ecc_uncorrected"], extra["remapped_rows"]) == (2, [0, 1, 0, 0])
    assert (extra["nvlink_errors"], extra["pcie_replays"]) == ({"crc_flit": 0, "replay": 7}, 3)
    assert (extra["throttle_reasons"], extra["pci"]) == (8, "00000000:01:00.0")
    assert extra["architecture"] == "sm_90"
    assert "retired_pages" not in extra
    assert "reserve_unknown" not in extra


@pytest.mark.parametrize("version", [470, 580])
def test_nvlink_errors_are_totals_of_all_links(
    gpus: Gpus, sampler: MakeSampler, version: int
) -> None:
    """By one call where the driver has totals, else link by link; none where there is none."""
    gpus.set(0, nvlink_replay=7, nvlink_crc_flit=1)
    gpus.set(1, nvlink_replay="[N/A]", nvlink_crc_flit="[N/A]")
    linked, alone = sampler(version).sample()["samples"]
    assert linked["extra"]["nvlink_errors"] == {"crc_flit": 1, "replay": 7}
    assert "nvlink_errors" not in alone["extra"]


def test_retired_pages_are_told_by_the_cards_that_have_them(
    gpus: Gpus, sampler: MakeSampler
) -> None:
    """Cards before Ampere retire pages and remap no rows."""
    gpus.set(1, remapped_rows_correctable="[N/A]")
    gpus.fields[1] |= {
        "retired_pages.single": "4", "retired_pages.double": "1", "retired_pages.pending": "1",
    }  # fmt: skip
    gpus.write()
    extra = sampler().sample()["samples"][1]["extra"]
    assert (extra["retired_pages"], extra["pages_to_retire"]) == ([4, 1], True)
    assert "remapped_rows" not in extra


@pytest.mark.parametrize("version", [440, 470, 535, 580])
def test_processes_are_told_by_drivers_of_every_age(
    gpus: Gpus, sampler: MakeSampler, version: int
) -> None:
    """Three versions of the call, and one that wrote longer rows under the same name."""
    own = os.getpid()
    gpus.run_on(
        GpuProcess(gpu=0, pid=own, used_memory_mib=300),
        GpuProcess(gpu=0, pid=2**22 - 2, used_memory_mib=70_000),
        GpuProcess(gpu=0, pid=2**22 - 1, used_memory_mib=5, type="G"),
        GpuProcess(gpu=1, pid=own, used_memory_mib=12),
    )
    samples = sampler(version).sample()["samples"]
    held = [[(one["pid"], one["memory_bytes"]) for one in gpu["processes"]] for gpu in samples]
    assert held == [
        sorted([(own, 300 * MIB), (2**22 - 2, 70_000 * MIB), (2**22 - 1, 5 * MIB)]),
        [(own, 12 * MIB)],
    ]
    words = Path("/proc/self/cmdline").read_bytes().rstrip(b"\0").decode().split("\0")
    assert samples[1]["processes"][0]["command"] == " ".join(words)


@pytest.mark.parametrize("version", [470, 580])
def test_an_idle_gpu_is_free_whether_or_not_its_reserve_is_told(
    gpus: Gpus, sampler: MakeSampler, version: int
) -> None:
    """Old drivers show 615 MiB in use on a GPU that nobody uses."""
    (idle, _) = sampler(version).sample()["samples"]
    assert idle["memory_used_bytes"] == (RESERVE if version < 510 else 0)
    assert is_free(idle)


def test_a_gpu_is_not_free_where_a_program_that_computes_is_on_it(
    gpus: Gpus, sampler: MakeSampler
) -> None:
    """A display's few MiB are no reason to refuse; a program whose memory is not told is one."""
    gpus.run_on(
        GpuProcess(gpu=0, pid=2**22 - 2, used_memory_mib=5, type="G"),
        GpuProcess(gpu=1, pid=2**22 - 1, used_memory_mib=310),
    )
    display, computing = sampler(470).sample()["samples"]
    assert (is_free(display), is_free(computing)) == (True, False)
    computing["processes"][0]["memory_bytes"] = None
    assert not is_free({**display, "processes": computing["processes"]})


def test_a_gpu_that_is_lost_leaves_the_others_and_is_an_error(
    gpus: Gpus, sampler: MakeSampler
) -> None:
    """It is still there as a sample, with the driver's words, and nobody takes it for idle."""
    watching = sampler()
    assert watching.sample()["error"] is None
    gpus.set(0, memory_used=9)
    gpus.lose(1)
    frame = watching.sample()
    assert frame["samples"][0]["memory_used_bytes"] == 9 * MIB
    assert frame["samples"][1]["extra"]["error"] == "GPU is lost"
    assert frame["error"] == "GPU 1: GPU is lost"


def test_a_driver_that_was_updated_under_a_program_is_said(
    gpus: Gpus, sampler: MakeSampler
) -> None:
    """Library and driver differ until a reboot; the next good answer is taken again."""
    watching = sampler()
    gpus.fail("Failed to initialize NVML: Driver/library version mismatch", exit_code=18)
    frame = watching.sample()
    assert frame["samples"] == []
    assert "version mismatch" in frame["error"]
    gpus.write()
    assert [one["index"] for one in watching.sample()["samples"]] == [0, 1]


def test_a_driver_that_does_not_answer_blocks_nobody(gpus: Gpus, sampler: MakeSampler) -> None:
    """Neither who asks first nor who asks next; once it answers again, so do we."""
    watching = sampler()
    assert watching.sample()["error"] is None
    gpus.hang()
    for _ in range(2):
        frame = watching.sample()
        assert frame["samples"] == []
        assert "has not answered a question for" in frame["error"]
    gpus.write()
    while not watching.sample()["samples"]:
        pass


def test_an_xid_is_heard_of_without_the_kernels_log(gpus: Gpus, sampler: MakeSampler) -> None:
    """By NVML's own events, from where the program began to listen; the newest is kept."""
    gpus.xid(0, 13)
    watching = sampler()
    assert "xid" not in watching.sample()["samples"][0]["extra"]
    gpus.xid(1, 48)
    gpus.xid(1, 94)
    whole, struck = watching.sample()["samples"]
    assert "xid" not in whole["extra"]
    assert struck["extra"]["xid"] == 94
    assert watching.sample()["samples"][1]["extra"]["xid_at"] == struck["extra"]["xid_at"]


def test_a_divided_gpu_tells_its_parts_and_who_is_on_which(
    gpus: Gpus, sampler: MakeSampler
) -> None:
    """MIG: the memory of each part, and a process with the part that it is on."""
    gpus.divide(
        MigDevice(gpu=0, index=0, instance=3, used_memory_mib=9_000),
        MigDevice(gpu=0, index=1, instance=5),
    )
    gpus.run_on(GpuProcess(gpu=0, pid=2**22 - 1, used_memory_mib=8_990, instance=3))
    divided, whole = sampler().sample()["samples"]
    assert (divided["extra"]["mig"], divided["utilization_percent"]) == (True, None)
    parts = divided["extra"]["mig_devices"]
    assert [(one["instance"], one["memory_used_bytes"]) for one in parts] == [
        (3, 9_000 * MIB),
        (5, 0),
    ]
    assert parts[0]["uuid"].startswith("MIG-")
    (process,) = divided["processes"]
    assert (process["gpu_instance"], process["memory_bytes"]) == (3, 8_990 * MIB)
    assert "mig_devices" not in whole["extra"]


@pytest.mark.parametrize(("name", "with_instance"), [("v1", False), ("v2", True), ("v3", True)])
def test_rows_that_a_real_driver_wrote_are_read(name: str, with_instance: bool) -> None:
    """One process on an H200 with driver 580, by each version of the call."""
    rows = bytes.fromhex((CAPTURES / f"h200-580-processes-{name}.hex").read_text().strip())
    (one,) = unpacked(rows, 1, with_instance=with_instance)
    assert (one.pid, one.memory_bytes, one.instance) == (426, 3_764_387_840, None)
