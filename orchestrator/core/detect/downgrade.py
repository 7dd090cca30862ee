"""The silent downgrade: compiled code that runs eagerly, seen in step times and memory alone.

Owns one comparison. What the log says about it is the signature `silent_eager`.
"""

from collections.abc import Sequence
from statistics import median

BASE_STEPS = 20
RECENT_STEPS = 5
SLOWER = 2.5
APART = 1.5
"""By this much the quickest step since is slower than nine of ten before: batches of lengths that
go by turns, or of a kind that came before, are the run's own pace. Of memory the same."""
LARGER = 1.5
_NINE_OF_TEN = BASE_STEPS * 9 // 10


def downgraded(step_s: Sequence[float], peak_bytes: Sequence[int] = ()) -> str | None:
    """A sentence where steps became several times slower and stayed so; None otherwise.

    Both sequences are in the order of the steps and in seconds and bytes. The base is the quickest
    stretch of the run so far, so that a slow warm-up is no base; memory only adds to the sentence.
    Steps as slow as one of ten before, or as large, are no news.
    """
    if len(step_s) < BASE_STEPS + RECENT_STEPS:
        return None
    recent = step_s[-RECENT_STEPS:]
    earlier = step_s[:-RECENT_STEPS]
    stretches = [
        sorted(earlier[start : start + BASE_STEPS])
        for start in range(0, len(earlier) - BASE_STEPS + 1, BASE_STEPS // 2)
    ]
    base, slow = min((median(one), one[_NINE_OF_TEN]) for one in stretches)
    if base <= 0 or min(recent) < max(SLOWER * base, APART * slow):
        return None
    said = f"the last {RECENT_STEPS} steps took {median(recent) / base:.1f} times as long as before"
    if len(peak_bytes) > RECENT_STEPS:
        before = sorted(peak_bytes[:-RECENT_STEPS])[(len(peak_bytes) - RECENT_STEPS) * 9 // 10]
        if before > 0 and median(peak_bytes[-RECENT_STEPS:]) > LARGER * before:
            said += f", with {median(peak_bytes[-RECENT_STEPS:]) / before:.1f} times the memory"
    return said
