"""`nvidia-smi` CSV as samples: recorded output, complaints, values that are none."""

import dataclasses
from pathlib import Path

from orchestrator.core.model import GpuSample
from orchestrator.core.parse.nvidia_smi import QUERY, looks_free, parse_samples

CAPTURES = Path(__file__).parents[2] / "captures" / "nvidia_smi"
MIB = 1024 * 1024
ALL = (
    f"{QUERY},clocks.sm,clocks.mem,clocks_throttle_reasons.active,"
    "ecc.errors.corrected.volatile.total,ecc.errors.uncorrected.volatile.total,mig.mode.current"
)
"""The columns of the recordings, which are the probe's."""


def read(name: str) -> str:
    """A capture."""
    return (CAPTURES / name).read_text()


def test_a_recorded_h200_is_read() -> None:
    """Units are taken off, MiB become bytes."""
    output = parse_samples(read("h200-query.txt"), ALL)
    assert output.complaint is None
    assert output.samples[1] == GpuSample(
        index=1,
        uuid="GPU-00000000-0000-0000-0000-218844251684",
        name="NVIDIA H200",
        memory_used_bytes=0,
        memory_total_bytes=143771 * MIB,
        utilization_percent=0.0,
        power_w=94.5,
        temperature_c=38.0,
        extra={"pci": "00000000:00:07.0", "power_limit_w": 700.0},
    )


def test_a_shorter_query_leaves_the_rest_unknown() -> None:
    """The three columns that people type by hand."""
    output = parse_samples(read("h200-short.txt"), "index,memory.used,utilization.gpu")
    assert [sample.index for sample in output.samples] == [0, 1]
    assert output.samples[0].memory_used_bytes == 0
    assert output.samples[0].memory_total_bytes is None
    assert output.samples[0].uuid is None


def test_what_a_gpu_does_not_say_is_none() -> None:
    """`[N/A]`, `[Not Supported]`, `ERR!`, `[GPU is lost]` are no zeros and no text."""
    first, second, third = parse_samples(read("unknown-values.txt"), ALL).samples
    assert first.memory_used_bytes is None
    assert first.utilization_percent is None
    assert second.memory_used_bytes == 11 * MIB
    assert second.power_w is None
    assert (third.uuid, third.name, third.temperature_c) == (None, None, None)


def test_a_driver_mismatch_is_a_complaint_without_samples() -> None:
    """The driver's own words, whole."""
    output = parse_samples(read("driver-mismatch.txt"))
    assert output.samples == ()
    assert output.complaint is not None
    assert output.complaint.startswith("Failed to initialize NVML: Driver/library version mismatch")


def test_a_lost_gpu_does_not_hide_the_others() -> None:
    """Rows and complaint of one call are both kept."""
    output = parse_samples(read("lost-gpu.txt"), ALL)
    assert [sample.memory_used_bytes for sample in output.samples] == [81559 * MIB]
    assert output.complaint is not None
    assert "GPU is lost" in output.complaint


def test_no_devices_is_a_complaint_and_nothing_is_nothing() -> None:
    """An empty answer, as over a cut connection, is neither."""
    assert parse_samples(read("no-devices.txt")).complaint == "No devices were found"
    empty = parse_samples("")
    assert (empty.samples, empty.complaint) == ((), None)


def test_a_number_in_words_is_unknown() -> None:
    """A cell that is neither marked nor a number."""
    text = "0, 5 MiB, lots"
    (sample,) = parse_samples(text, "index,memory.used,utilization.gpu").samples
    assert (sample.memory_used_bytes, sample.utilization_percent) == (5 * MIB, None)


def test_an_old_driver_may_show_its_own_reserve_as_used() -> None:
    """A card with nothing but that on it looks free; one with a program does not."""
    text = read("driver-390-k80.txt")
    query = ALL.removesuffix(",mig.mode.current")
    idle, busy = parse_samples(text, query).samples
    assert (idle.extra["reserve_unknown"], looks_free(idle)) == (True, True)
    assert looks_free(dataclasses.replace(idle, memory_used_bytes=615 * MIB))
    assert not looks_free(dataclasses.replace(busy, memory_used_bytes=9_000 * MIB))
    (new,) = parse_samples(read("h200-query.txt").splitlines()[0], ALL).samples
    assert looks_free(new)
    assert not looks_free(dataclasses.replace(new, memory_used_bytes=615 * MIB))
