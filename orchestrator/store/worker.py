"""The one thread that touches the database; everything else awaits it.

Owns the connection and the transaction around each call. Must not: know any table.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from json import JSONDecodeError
from typing import TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from orchestrator.core.errors import StoreError
from orchestrator.store.dialects import POSTGRES
from orchestrator.store.schema import translated

Result = TypeVar("Result")

ANSWERS_WITHIN_S = 8.0
"""A PostgreSQL that hangs says nothing for ever; whoever asks the daemon waits 10 s for a sign."""


class Worker:
    """Runs functions of a Connection, each in a transaction of its own, one after the other."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        # A file needs its time, and has nobody who could be away.
        self._within_s = ANSWERS_WITHIN_S if engine.dialect.name == POSTGRES else None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="store")

    async def call(self, function: Callable[[Connection], Result]) -> Result:
        """The function's result once its transaction is on the disk; StoreError where it failed.

        A caller that is cancelled while the function runs leaves it to end: whole or not at all.
        What a hung database had no answer for is not done later, when it goes on: nothing of it.
        """
        given_up = threading.Event()
        try:
            async with asyncio.timeout(self._within_s):
                return await asyncio.get_running_loop().run_in_executor(
                    self._thread, self._run, function, given_up
                )
        except TimeoutError as exc:
            given_up.set()
            raise StoreError(
                f"The database has not answered for {self._within_s:g} s.",
                remedy="Runs go on meanwhile; see that it runs, and that ORCH_STORE is right.",
            ) from exc
        except RuntimeError as exc:
            if "shutdown" not in str(exc):
                raise
            raise StoreError("The store is closed.", remedy="Start the daemon again.") from exc

    async def close(self) -> None:
        """End the thread after what is queued, then the connection."""
        await asyncio.to_thread(self._thread.shutdown)
        self._engine.dispose()

    def _run(self, function: Callable[[Connection], Result], given_up: threading.Event) -> Result:
        try:
            with self._engine.begin() as connection:
                result = function(connection)
                if given_up.is_set():
                    # Whoever asked was told that it failed, and may have asked anew.
                    raise StoreError("Nobody waits for it any more; it was rolled back.")
                return result
        except DBAPIError as exc:
            raise translated(exc) from exc
        except JSONDecodeError as exc:
            raise StoreError(
                f"The database is damaged: a document in it is none: {exc}.",
                remedy="Restart the daemon; unless only one run's past is hit, it sets the file "
                "aside and asks the targets what runs.",
            ) from exc
