"""How fast a run goes: its own step time, learned, and whether that has doubled for good.

Owns the arithmetic alone. Times are unix seconds, or of any clock that only grows.
"""

import math
from collections import deque
from statistics import median

SKIPPED = 5
"""First intervals hold compiling and caches that fill."""
BASELINE = 20
RECENT = 20
SLOW_FACTOR = 2.0
SLOW_FOR_S = 60.0
TRAINING = frozenset({None, "", "train"})


class Pace:
    """Takes steps as they are told; knows what is usual once it has seen enough."""

    def __init__(self) -> None:
        self._last: tuple[int, float] | None = None
        self._skipped = 0
        self._baseline: list[float] = []
        self._recent: deque[float] = deque(maxlen=RECENT)
        self._slow_since: float | None = None

    def step(self, number: int, at: float, phase: str | None) -> None:
        """A step was done; an interval with another phase in it says nothing of the pace."""
        last, self._last = self._last, (number, at)
        if phase not in TRAINING:
            self._last = None
            return
        if last is None or number <= last[0] or at <= last[1]:
            return
        interval_s = (at - last[1]) / (number - last[0])
        if self._skipped < SKIPPED:
            self._skipped += 1
        elif len(self._baseline) < BASELINE:
            self._baseline.append(interval_s)
        else:
            self._recent.append(interval_s)
            self._judge(at)

    @property
    def usual_s(self) -> float | None:
        """Seconds a step takes; None until that is known."""
        return median(self._baseline) if len(self._baseline) == BASELINE else None

    @property
    def recent_s(self) -> float | None:
        """Seconds that the newest steps took; None until that is known."""
        return median(self._recent) if len(self._recent) == RECENT else None

    @property
    def intervals_s(self) -> tuple[float, ...]:
        """Seconds of the first steps and of the newest, in their order."""
        return (*self._baseline, *self._recent)

    def is_halved(self, now: float) -> bool:
        """Whether it has been half as fast as usual for a while, and has not come back."""
        return self._slow_since is not None and now - self._slow_since >= SLOW_FOR_S

    def _judge(self, at: float) -> None:
        usual_s, recent_s = self.usual_s, self.recent_s
        if usual_s is None or recent_s is None:
            return
        if recent_s >= SLOW_FACTOR * usual_s:
            self._slow_since = self._slow_since if self._slow_since is not None else at
        else:
            self._slow_since = None


class Speed:
    """What the program says that it does a second: as much as at first, however long steps are."""

    def __init__(self) -> None:
        self._skipped = 0
        self._first: list[float] = []
        self._newest: deque[float] = deque(maxlen=RECENT)

    def add(self, told: object) -> None:
        """Take what a step has told; anything but a number that can be is passed over."""
        if isinstance(told, bool) or not isinstance(told, int | float):
            return
        if not math.isfinite(told) or told <= 0:
            return
        if self._skipped < SKIPPED:
            self._skipped += 1
        elif len(self._first) < BASELINE:
            self._first.append(told)
        else:
            self._newest.append(told)

    @property
    def is_kept(self) -> bool:
        """Whether it is known to be what it was; False also where nothing is told."""
        if len(self._newest) < RECENT:
            return False
        return median(self._newest) * SLOW_FACTOR > median(self._first)
