"""How many relaunches there may be over the whole fleet: what fails together must not start so.

When a shared disk or a switch is gone, every run fails at once and every policy wants another
attempt. Must not: know which run waits, or read a clock.
"""

from collections.abc import Sequence

AT_ONCE = 5
WITHIN_S = 60.0


def turn_at(begun: Sequence[float], now: float) -> float:
    """Unix time at which one more relaunch may begin; `begun` are those of before, in order."""
    recent = [at for at in begun if now - WITHIN_S < at <= now]
    if len(recent) < AT_ONCE:
        return now
    return recent[-AT_ONCE] + WITHIN_S
