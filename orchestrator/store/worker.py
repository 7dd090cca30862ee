"""The one thread that touches the database; everything else awaits it.

Owns the connection and the transaction around each call. Must not: know any table.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from orchestrator.core.errors import StoreError
from orchestrator.store.schema import translated

Result = TypeVar("Result")


class Worker:
    """Runs functions of a Connection, each in a transaction of its own, one after the other."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="store")

    async def call(self, function: Callable[[Connection], Result]) -> Result:
        """The function's result once its transaction is on the disk; StoreError where it failed.

        A caller that is cancelled while the function runs leaves it to end: whole or not at all.
        """
        try:
            return await asyncio.get_running_loop().run_in_executor(
                self._thread, self._run, function
            )
        except RuntimeError as exc:
            if "shutdown" not in str(exc):
                raise
            raise StoreError("The store is closed.", remedy="Start the daemon again.") from exc

    async def close(self) -> None:
        """End the thread after what is queued, then the connection."""
        await asyncio.to_thread(self._thread.shutdown)
        self._engine.dispose()

    def _run(self, function: Callable[[Connection], Result]) -> Result:
        try:
            with self._engine.begin() as connection:
                return function(connection)
        except DBAPIError as exc:
            raise translated(exc) from exc
