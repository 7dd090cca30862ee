"""What a daemon does for as long as it lives, also after a failure that nobody thought of.

Without its leases turned, or others' requests taken, a daemon would only look alive.
"""

import logging
from collections.abc import Awaitable, Callable

from orchestrator.clock import Clock

AGAIN_S = 1.0
"""Leases that were last confirmed a turn ago are confirmed again before they count as lost."""
MOST_S = 5.0
STEADY_S = 60.0
"""What went well for so long is begun anew as soon as at first."""

logger = logging.getLogger(__name__)


async def lasting(name: str, duty: Callable[[], Awaitable[None]], clock: Clock) -> None:
    """Do it until it is over; where it fails, it is said and begun anew after a while."""
    pause = AGAIN_S
    while True:
        began = clock.monotonic()
        try:
            await duty()
        except Exception:
            logger.critical("duty.failed", extra={"duty": name}, exc_info=True)
        else:
            return
        if clock.monotonic() - began > STEADY_S:
            pause = AGAIN_S
        await clock.sleep(pause)
        pause = min(MOST_S, 2 * pause)
