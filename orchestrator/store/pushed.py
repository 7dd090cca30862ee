"""What a PostgreSQL tells of itself (LISTEN), so that nobody has to wait for the next look.

Owns a connection of its own. It may be cut at any time and misses what is said meanwhile: whoever
waits here looks at the tables now and then all the same. Must not: know a table.
"""

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Any

from sqlalchemy import Engine

if TYPE_CHECKING:
    from psycopg import AsyncConnection

AGAIN_S = 2.0

logger = logging.getLogger(__name__)


class Pushed:
    """Rings whenever any daemon of the fleet has told of something."""

    CHANNEL = "orch_requests"

    def __init__(self, engine: Engine) -> None:
        _, self._arguments = engine.dialect.create_connect_args(engine.url)
        self._rung = asyncio.Event()

    async def run(self) -> None:
        """Listen for ever, over a new connection whenever one ends."""
        from psycopg import AsyncConnection, Error  # an extra, that few need

        while True:
            try:
                asked: dict[str, Any] = {**self._arguments, "autocommit": True}
                async with await AsyncConnection.connect(**asked) as connection:
                    await self._listen(connection)
            except Error as error:
                logger.info("requests.not_pushed", extra={"why": str(error).strip()})
            await asyncio.sleep(AGAIN_S)

    async def _listen(self, connection: "AsyncConnection[Any]") -> None:
        await connection.execute("LISTEN orch_requests")
        self._ring()
        async for _ in connection.notifies():
            self._ring()

    def bell(self) -> asyncio.Event:
        """Set at the next ring; to be had before a look, so that nothing falls between."""
        return self._rung

    def _ring(self) -> None:
        self._rung.set()
        self._rung = asyncio.Event()


async def rung(bell: asyncio.Event, within_s: float) -> None:
    """Wait for a ring, and no longer than that."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(within_s):
            await bell.wait()
