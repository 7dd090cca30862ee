"""The statistics of `orch repeat` and `compare`: how often it crashes, and how sure that is.

Must not: run anything.
"""

from dataclasses import dataclass
from math import comb, sqrt

Z_95 = 1.959963984540054
"""Of the normal distribution, for an interval of 95 %."""

SIGNIFICANT = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashRate:
    """Crashes among trials, with Wilson's interval of 95 %; rates are 0 to 1."""

    trials: int
    crashes: int
    rate: float | None
    """None before the first trial."""
    low: float
    high: float

    def __str__(self) -> str:
        """`3 of 10 crashed: 30 % (11-60 %)`."""
        if self.rate is None:
            return "no trial yet"
        return (
            f"{self.crashes} of {self.trials} crashed: "
            f"{self.rate:.0%} ({self.low * 100:.0f}-{self.high * 100:.0f} %)".replace("%", " %", 1)
        )


def crash_rate(crashes: int, trials: int) -> CrashRate:
    """The rate with its interval; ValueError where the counts cannot be."""
    if not 0 <= crashes <= trials:
        raise ValueError(f"{crashes} crashes of {trials} trials cannot be")
    if not trials:
        return CrashRate(trials=0, crashes=0, rate=None, low=0.0, high=1.0)
    rate = crashes / trials
    square = Z_95**2
    scale = 1 + square / trials
    centre = (rate + square / (2 * trials)) / scale
    reach = Z_95 * sqrt(rate * (1 - rate) / trials + square / (4 * trials**2)) / scale
    return CrashRate(
        trials=trials,
        crashes=crashes,
        rate=rate,
        low=0.0 if not crashes else max(0.0, centre - reach),
        high=1.0 if crashes == trials else min(1.0, centre + reach),
    )


def fisher(first: CrashRate, second: CrashRate) -> float:
    """Fisher's exact test, two-sided: how likely counts that differ so much are by chance alone."""
    trials, crashes = first.trials + second.trials, first.crashes + second.crashes
    ways = comb(trials, crashes)

    def chance(count: int) -> float:
        return comb(first.trials, count) * comb(second.trials, crashes - count) / ways

    seen = chance(first.crashes)
    least, most = max(0, crashes - second.trials), min(crashes, first.trials)
    # Equal chances differ in their last digits, depending on the order of the factors.
    chances = (chance(count) for count in range(least, most + 1))
    return min(1.0, sum(one for one in chances if one <= seen * (1 + 1e-9)))


def judged(first: CrashRate, second: CrashRate) -> str:
    """What two crash rates say of each other, in a sentence."""
    if first.rate is None or second.rate is None:
        return "One of the two has no run that ended: nothing can be said."
    p = fisher(first, second)
    if p >= SIGNIFICANT:
        return (
            f"These counts show no difference (Fisher's exact test, p = {p:.2g}); "
            "more runs may: `orch repeat`."
        )
    less = "less" if second.rate < first.rate else "more"
    return f"The second crashes {less} often (Fisher's exact test, p = {p:.2g})."
