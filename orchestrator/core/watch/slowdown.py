"""Whether a run has become slower for good: a change of its pace, told from its own unevenness.

Owns the statistics. Steps of one run differ for good reasons: batches by length, evaluations that
nobody announces, stalls of a loader, lengths that grow. So it is not the typical step that is
compared but the whole distribution of a window with that of the window before it, and with every
window that the run has had: a slower one has slower quick steps too, was quick right before, and
is slower than the run ever was for so long. Must not: know what a step does.
"""

import math
from collections import deque
from dataclasses import dataclass
from statistics import median

SAMPLE_S = 4.0
"""Steps are taken together until they have lasted so long; their median is one sample."""
QUANTILES = (0.1, 0.25, 0.5, 0.75)
_HIGH = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    """One size of window, and how even samples have to be for it."""

    size: int
    shifted: float
    """By so much each quantile is above that of the window before."""
    known: int
    """Windows that have to have been before."""
    spread: float
    """Most that the slow steps of the window before may be above its quick ones."""


_RULES = (
    _Rule(size=20, shifted=1.35, known=2, spread=1.25),
    _Rule(size=80, shifted=1.35, known=5, spread=float("inf")),
)
PAST_WINDOWS = 400
UNHEARD_OF = 1.2
"""By so much the quantiles are above those of all windows before."""
STORM = 2.5
"""Where some steps are slow and others not: what the steps take in all, against all before."""
MEMORY_BASE_STEPS = 20
MEMORY_STEPS = 5
MEMORY_LARGER = 1.5
"""Steps so much larger than nine of ten of the first ones: what compiled code spared is back."""
STORM_KNOWN = 3
"""Windows that have to have been before."""
_STORM_PART = 0.7
"""Three steps of ten are slow in a storm; a loader's stalls and evaluations are fewer."""
_TRIMMED = 0.1
"""The slowest tenth does not count there: one long stall is no storm."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fall:
    """By how much the newest window is slower than the one before."""

    unit: str
    """`a step` or `a token`: what takes longer."""
    factor: float
    memory: float | None = None
    """How many times the memory, where that has grown as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Past:
    """What is kept of a window."""

    quantiles: list[float]
    mean: float
    slow: float


class _Windows:
    """Windows of one size: the newest, the one before it, and what those before were like."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._samples: deque[float] = deque(maxlen=2 * size)
        self._since = 0
        self._past: deque[_Past] = deque(maxlen=PAST_WINDOWS)

    def add(self, sample: float) -> None:
        self._samples.append(sample)
        self._since += 1
        if len(self._samples) == 2 * self._size and self._since >= self._size:
            self._since = 0
            before = list(self._samples)[: self._size]
            self._past.append(
                _Past(
                    quantiles=_quantiles(before),
                    mean=_trimmed(before),
                    slow=_at(before, _STORM_PART),
                )
            )

    def both(self, known: int) -> tuple[list[float], list[float]] | None:
        """The window before and the newest, once so many have been."""
        if len(self._past) < known:
            return None
        samples = list(self._samples)
        return samples[: self._size], samples[self._size :]

    def is_unheard_of(self, found: list[float]) -> bool:
        """Whether quantiles are above those of each window before; the highest one aside.

        A spell of a slow neighbour, shorter than a window, is in that one.
        """
        past = zip(*(one.quantiles[:-1] for one in self._later()), strict=True)
        return all(new > UNHEARD_OF * max(old) for new, old in zip(found[:-1], past, strict=True))

    def were_even(self, spread: float) -> bool:
        """Whether those before were, but for their slowest steps."""
        return all(one.quantiles[-1] <= spread * one.quantiles[0] for one in self._later())

    def slowest(self) -> tuple[float, float]:
        """Mean and the slow steps of the slowest window before."""
        later = self._later()
        return max(one.mean for one in later), max(one.slow for one in later)

    def _later(self) -> list[_Past]:
        """Not those of the run's first half: it may have been slow until it was warm."""
        return list(self._past)[len(self._past) // 2 :]


class Slowdown:
    """Fed one value a step; knows whether the run is slower for good."""

    def __init__(self) -> None:
        self.factor: float | None = None
        """How many times as slow as before; None where it is not, or has come back."""
        self._before = 0.0
        self._together: list[float] = []
        self._together_s = 0.0
        self._windows = [_Windows(rule.size) for rule in _RULES]
        self._newest: deque[float] = deque(maxlen=_RULES[0].size)

    def add(self, value: float, took_s: float) -> None:
        """A step's value, more being slower, and the seconds that it took."""
        self._together.append(value)
        self._together_s += took_s
        if self._together_s < SAMPLE_S:
            return
        sample = sorted(self._together)[(len(self._together) - 1) // 2]
        self._together, self._together_s = [], 0.0
        self._newest.append(sample)
        for windows in self._windows:
            windows.add(sample)
        if self.factor is None:
            self._look()
        elif _trimmed(list(self._newest)) < UNHEARD_OF * self._before:
            self.factor = None

    def _look(self) -> None:
        found = next(filter(None, map(_shift, _RULES, self._windows)), None) or self._storm()
        if found is not None:
            self._before, after = found
            self.factor = after / self._before

    def _storm(self) -> tuple[float, float] | None:
        """Means of a window before and of the newest, where all of it takes so much longer."""
        windows = self._windows[-1]
        both = windows.both(STORM_KNOWN)
        if both is None:
            return None
        before, after = (_trimmed(one) for one in both)
        mean, slow = windows.slowest()
        for one in _parts(both[1], 4):
            if _trimmed(one) < STORM * mean or _at(one, _STORM_PART) < STORM * slow:
                return None
        return before, after


def _shift(rule: _Rule, windows: _Windows) -> tuple[float, float] | None:
    """Medians of a window before and of the newest, where all of its distribution is slower."""
    both = windows.both(rule.known)
    if both is None:
        return None
    before, after = (_quantiles(one) for one in both)
    even = _at(both[0], _HIGH) <= rule.spread * before[0] and windows.were_even(rule.spread)
    shifted = all(new >= rule.shifted * old for new, old in zip(after, before, strict=True))
    if not even or not shifted or _at_once(*both) < rule.shifted or not _agree(*both, rule.shifted):
        return None
    return (before[2], after[2]) if windows.is_unheard_of(after) else None


class Slower:
    """One run: by its tokens where it tells them, for sequences may grow; by its steps else."""

    def __init__(self) -> None:
        self._by_step, self._by_token = Slowdown(), Slowdown()
        self._tells_tokens = False
        self._untold_s = 0.0
        """Since the last line that told tokens: some programs tell them at every tenth step."""
        self._memory: list[int] = []
        self._newest_memory: deque[int] = deque(maxlen=MEMORY_STEPS)

    def step(self, each_s: float, took_s: float, tokens_per_s: object, memory: object) -> None:
        """Seconds a step took, and all of those since the last one told; what it said itself."""
        self._by_step.add(each_s, took_s)
        self._untold_s += took_s
        if isinstance(tokens_per_s, int | float) and _is_positive(tokens_per_s):
            self._tells_tokens = True
            self._by_token.add(1.0 / tokens_per_s, self._untold_s)
            self._untold_s = 0.0
        if isinstance(memory, int) and _is_positive(memory):
            if len(self._memory) < MEMORY_BASE_STEPS:
                self._memory.append(memory)
            else:
                self._newest_memory.append(memory)

    @property
    def fall(self) -> Fall | None:
        """What the newest steps are, if they are slower for good."""
        factor = (self._by_token if self._tells_tokens else self._by_step).factor
        if factor is None:
            return None
        unit = "a token" if self._tells_tokens else "a step"
        return Fall(unit=unit, factor=factor, memory=self._larger())

    def _larger(self) -> float | None:
        if len(self._newest_memory) < MEMORY_STEPS:
            return None
        most = sorted(self._memory)[len(self._memory) * 9 // 10]
        times = median(self._newest_memory) / most
        return times if times > MEMORY_LARGER else None


def _is_positive(told: object) -> bool:
    if isinstance(told, bool) or not isinstance(told, int | float):
        return False
    return math.isfinite(told) and told > 0


def _quantiles(samples: list[float]) -> list[float]:
    return [_at(samples, part) for part in QUANTILES]


def _at(samples: list[float], part: float) -> float:
    return sorted(samples)[int(part * (len(samples) - 1) + 0.5)]


def _at_once(before: list[float], after: list[float]) -> float:
    """By how much the pace changed where the windows meet: little where it grows all the while."""
    near = len(before) // 4
    return median(after[:near]) / median(before[-near:])


def _agree(before: list[float], after: list[float], shifted: float) -> bool:
    """Whether each half shows it too: steps that come in stretches of one length are few draws."""
    was, now = (zip(*map(_quantiles, _parts(one, 2)), strict=True) for one in (before, after))
    pairs = list(zip(was, now, strict=True))[1:]
    return all(min(new) >= shifted * max(old) for old, new in pairs)


def _parts(samples: list[float], count: int) -> list[list[float]]:
    size = len(samples) // count
    return [samples[at * size : (at + 1) * size] for at in range(count)]


def _trimmed(samples: list[float]) -> float:
    """Mean without the slowest tenth."""
    kept = sorted(samples)[: max(1, int(len(samples) * (1 - _TRIMMED)))]
    return sum(kept) / len(kept)
