"""The line in which the relaunches of all runs wait for their turn (core/decide/storm.py).

It owns the order. A new daemon begins with an empty line: what was due meanwhile goes through it.
"""

import asyncio
import logging
from collections import deque

from orchestrator.clock import Clock
from orchestrator.core.decide.storm import AT_ONCE, turn_at

logger = logging.getLogger(__name__)


class Gate:
    """Lets relaunches through, first come, first served, a few a minute."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._line = asyncio.Lock()
        self._begun: deque[float] = deque(maxlen=AT_ONCE)

    async def turn(self) -> None:
        """Wait until one more relaunch may begin; whoever is cancelled has taken no turn."""
        async with self._line:
            wait_s = turn_at(self._begun, self._clock.now()) - self._clock.now()
            if wait_s > 0:
                logger.info("relaunch.waits", extra={"seconds": round(wait_s, 1)})
                await self._clock.sleep(wait_s)
            self._begun.append(self._clock.now())
