"""The rounds of GPU samples that are kept: bounded in number, and in bytes."""

import sys

from orchestrator.core.events import GpusSampled
from orchestrator.core.model import GpuSample
from orchestrator.daemon.gpu_history import MOST_CHARS, MOST_ROUNDS, GpuHistory


def seen(at: float, command: str = "train") -> GpusSampled:
    """A round of one GPU with one program on it."""
    sample = GpuSample(index=0, processes=({"pid": 1, "command": command},))
    return GpusSampled(samples=(sample,), source="nvml", at=at)


def test_the_newest_rounds_are_kept() -> None:
    """An hour of them, oldest first; one that comes twice is kept once."""
    history = GpuHistory()
    for at in range(MOST_ROUNDS + 3):
        history.add(seen(at))
        history.add(seen(at))
    kept = [one.at for one in history.rounds()]
    assert kept == list(range(3, MOST_ROUNDS + 3))


def test_large_rounds_push_the_others_out() -> None:
    """A target that tells a megabyte each time has no more memory here than any other."""
    history = GpuHistory()
    for at in range(40):
        history.add(seen(at, "x" * 1024**2 + str(at)))
    kept = history.rounds()
    sizes = [sys.getsizeof(one.samples[0].processes[0]["command"]) for one in kept]
    assert len(kept) > 10
    assert sum(sizes) < MOST_CHARS
    assert kept[-1].at == 39


def test_the_newest_round_is_kept_whatever_its_size() -> None:
    """One is shown always, and leaves when the next comes."""
    history = GpuHistory()
    history.add(seen(1, "x" * MOST_CHARS))
    assert [one.at for one in history.rounds()] == [1]
    history.add(seen(2))
    assert [one.at for one in history.rounds()] == [2]
