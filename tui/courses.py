"""Courses of numbers that can be drawn: a run's metrics by step, its GPUs by time. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

from tui.plot import Point

FIRST = ("loss", "tokens_per_s", "grad_norm", "acceptance", "lr")
"""The well-known ones come first, in this order."""
_NO_COURSE = frozenset({"t", "step", "seconds"})
_GIB = 1024**3

GPU_COURSES: Mapping[str, tuple[str, float]] = {
    "GPU use %": ("utilization_percent", 1.0),
    "GPU memory GiB": ("memory_used_bytes", float(_GIB)),
    "GPU power W": ("power_w", 1.0),
}
"""What is told of all GPUs of a target together: the key of a sample, and its unit."""

Courses = Mapping[str, list[Point]]


def note(courses: dict[str, list[Point]], metrics: Iterable[Mapping[str, Any]]) -> None:
    """Lay further lines of a metrics file, each with its step, behind the courses so far."""
    for line in metrics:
        for name, value in line.items():
            if name in _NO_COURSE or isinstance(value, bool) or not isinstance(value, int | float):
                continue
            courses.setdefault(name, []).append((float(line["step"]), float(value)))


def ordered(courses: Courses) -> Courses:
    """The well-known ones first, then by name."""
    return {name: courses[name] for name in sorted(courses, key=_place)}


def _place(name: str) -> tuple[int, str]:
    return (FIRST.index(name) if name in FIRST else len(FIRST), name)


def of_gpus(history: Iterable[Mapping[str, Any]]) -> Courses:
    """Mean use, memory and power of a target's GPUs, over the minutes since the first sample."""
    found: dict[str, list[Point]] = {}
    first: float | None = None
    for moment in history:
        first = moment["t"] if first is None else first
        at = (moment["t"] - first) / 60
        for name, (key, unit) in GPU_COURSES.items():
            known = [gpu[key] for gpu in moment["samples"] if gpu.get(key) is not None]
            if known:
                whole = sum(known) / unit
                value = whole / len(known) if key == "utilization_percent" else whole
                found.setdefault(name, []).append((at, value))
    return found
