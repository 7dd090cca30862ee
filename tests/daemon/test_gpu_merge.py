"""GPUs of a container from its own view and its host's."""

from orchestrator.core.events import GpusSampled
from orchestrator.core.model import GpuSample
from orchestrator.daemon.gpu_merge import merged


def seen(*uuids: str, error: str | None = None, source: str = "nvml") -> GpusSampled:
    """A round of samples of GPUs with these uuids."""
    samples = tuple(GpuSample(index=n, uuid=uuid) for n, uuid in enumerate(uuids))
    return GpusSampled(samples=samples, source=source, at=1.0, error=error)


def test_the_host_tells_of_the_gpus_that_the_container_has() -> None:
    """Two of four were passed through: these two, with the host's numbers."""
    found = merged(seen("C", "D"), seen("A", "B", "C", "D"))
    assert found is not None
    assert [(one.uuid, one.index) for one in found.samples] == [("C", 2), ("D", 3)]
    assert found.source == "nvml on the host"


def test_without_the_host_the_view_is_marked() -> None:
    """A container sees no process but its own, so that nobody takes its view for the whole."""
    found = merged(seen("A"), None)
    assert found is not None
    assert found.source == "nvml in the container"


def test_a_container_without_a_gpu_has_none() -> None:
    """Its host's GPUs are none of its business."""
    found = merged(seen(source=""), seen("A"))
    assert found is not None
    assert found.samples == ()


def test_a_container_whose_driver_is_broken_shows_the_hosts_view_and_the_complaint() -> None:
    """`Driver/library version mismatch` inside: the cards are there all the same."""
    found = merged(seen(error="Driver/library version mismatch"), seen("A"))
    assert found is not None
    assert len(found.samples) == 1
    assert found.error == "Driver/library version mismatch"


def test_nothing_is_known_at_first() -> None:
    """Before the first sample there is no view."""
    assert merged(None, None) is None
    assert merged(None, seen("A")) is not None
