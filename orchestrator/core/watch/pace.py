"""How fast a run goes: its own step time, learned.

Owns the arithmetic alone. Times are unix seconds, or of any clock that only grows.
"""

from statistics import median

SKIPPED = 5
"""First intervals hold compiling and caches that fill."""
BASELINE = 20
TRAINING = frozenset({None, "", "train"})


class Pace:
    """Takes steps as they are told; knows what is usual once it has seen enough."""

    def __init__(self) -> None:
        self._last: tuple[int, float] | None = None
        self._skipped = 0
        self._baseline: list[float] = []

    def step(self, number: int, at: float, phase: str | None) -> tuple[float, float] | None:
        """A step was done: seconds that each took since the last one told, and all of them.

        None where an interval says nothing of the pace, as one with another phase in it.
        """
        last, self._last = self._last, (number, at)
        if phase not in TRAINING:
            self._last = None
            return None
        if last is None or number <= last[0] or at <= last[1]:
            return None
        interval_s = (at - last[1]) / (number - last[0])
        if self._skipped < SKIPPED:
            self._skipped += 1
            return None
        if len(self._baseline) < BASELINE:
            self._baseline.append(interval_s)
        return interval_s, at - last[1]

    @property
    def usual_s(self) -> float | None:
        """Seconds a step takes; None until that is known."""
        return median(self._baseline) if len(self._baseline) == BASELINE else None
