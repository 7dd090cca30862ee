"""When what is watched is looked at again: seldom while lines trickle, at once where it matters.

Owns the agreement of relay and probe. Writes that follow each other within STEADY_S are told of
once, by a poke that says `steady`; from then on the probe looks by itself, until it has found
nothing for LINGER_S, which is longer: so the first write after a pause is always told of. One that
has just begun looks by itself as well, and whoever missed a poke finds out within a second.
"""

import math

PACE_S = 0.2
"""Between two looks at a stream that is read to its end. All probes of a machine look at the same
moments, so that what they say reaches the daemon together."""
HURRY_S = 0.05
"""Between two looks where the relay says that something matters, and the least of all."""
STEADY_S = 0.15
LINGER_S = 0.25

TRICKLE_BYTES = 2048
"""A write of more is no line of progress."""
LOUD_FOR_S = 1.0
"""After words that may begin a crash each write is told of, since its end matters as well."""
LOUD = (b"raceback", b"rror", b"xception", b"FATAL", b"atal ", b"erminat", b"bort", b"Killed")


def next_look(now: float, pace_s: float = PACE_S) -> float:
    """The common moment at which to look again, on the monotonic clock."""
    if not pace_s:
        return now
    tick = (math.floor(now / pace_s) + 1) * pace_s
    return tick if tick - now >= HURRY_S else tick + pace_s


def is_trickle(output: bytes) -> bool:
    """Whether output may wait for the next common moment."""
    return len(output) < TRICKLE_BYTES and not any(word in output for word in LOUD)
