"""A dead man's switch: a request a minute for as long as the daemon sees what it watches.

Whoever waits for them (healthchecks.io, Uptime Kuma, Alertmanager's snitch) calls people when
they stop. A blind watcher must not look healthy: it skips its beats. Must not: carry news.
"""

import logging
from collections.abc import Callable

import aiohttp

from orchestrator.clock import Clock
from orchestrator.sinks.base import Lookup
from orchestrator.sinks.webhook import checked_url

EVERY_S = 60.0
DEADLINE_S = 10.0

logger = logging.getLogger(__name__)


class Heartbeat:
    """Beats while `healthy()` says so; a missed beat is a line in the log and nothing more."""

    def __init__(
        self,
        url_env: Callable[[], str | None],
        clock: Clock,
        lookup: Lookup,
        healthy: Callable[[], bool],
    ) -> None:
        """`url_env` says the name of the address' variable at the moment, None for no beats."""
        self._url_env = url_env
        self._clock = clock
        self._lookup = lookup
        self._healthy = healthy

    async def run(self) -> None:
        """Beat for ever."""
        timeout = aiohttp.ClientTimeout(total=DEADLINE_S)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            while True:
                if self._healthy():
                    await self._beat(session)
                await self._clock.rest(EVERY_S)

    async def _beat(self, session: aiohttp.ClientSession) -> None:
        url = checked_url(self._lookup(self._url_env() or "") or "")
        if url is None:
            return
        try:
            async with session.get(url, allow_redirects=False) as response:
                if response.status >= 300:
                    logger.warning("heartbeat.refused", extra={"status": response.status})
        except (aiohttp.ClientError, TimeoutError, OSError) as exc:
            logger.warning("heartbeat.failed", extra={"reason": type(exc).__name__})
