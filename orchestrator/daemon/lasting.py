"""What a daemon does for as long as it lives, also after a failure that nobody thought of.

Without its leases turned, or others' requests taken, a daemon would only look alive.
"""

import logging
from collections.abc import Awaitable, Callable

from orchestrator.clock import Clock

AGAIN_S = 5.0

logger = logging.getLogger(__name__)


async def lasting(name: str, duty: Callable[[], Awaitable[None]], clock: Clock) -> None:
    """Do it until it is over; where it fails, it is said and begun anew after a while."""
    while True:
        try:
            await duty()
        except Exception:
            logger.critical("duty.failed", extra={"duty": name}, exc_info=True)
            await clock.sleep(AGAIN_S)
        else:
            return
