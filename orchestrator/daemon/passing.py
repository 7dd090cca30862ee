"""What one daemon of a fleet does for another: asked, done once and answered through the database.

Owns both ends: waiting for an answer as long as whoever asked does, and doing what is asked of the
hosts that are driven here, through this daemon's own socket. Must not: know what a request means.
"""

import asyncio
import json
import logging
import re
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any

from orchestrator.api.forwarding import Asked, answered_here
from orchestrator.clock import Clock
from orchestrator.core.errors import ApiError, DaemonError, StoreError
from orchestrator.daemon.leasing import Leasing
from orchestrator.store.pushed import rung
from orchestrator.store.requests import Progress, Request, Requests

LOOK_S = 2.0
"""Where nothing is pushed."""
UNSEEN_S = 30.0
"""So long a database that is away is waited for."""
TAKEN_WITHIN_S = 20.0
"""Longer than a daemon that hangs keeps a host."""
WANT_EVERY_S = 5.0
MOST_UNREAD = 16

PASSED = frozenset(
    {
        *("log", "follow", "search", "metrics", "gpus", "wait", "bundle", "diff"),
        *("stop", "ack", "end-process", "give-up", "prune"),
    }
)
"""Questions that only the daemon that drives the host can answer."""
_PATH = re.compile(r"/v1/(?:runs|incidents|targets|hosts)/[^/?]+/([a-z-]+)(?:\?|\Z)")

logger = logging.getLogger(__name__)


class Passing:
    """The requests of this daemon to others, and theirs to it."""

    def __init__(
        self, requests: Requests | None, leasing: Leasing, clock: Clock, server: Path
    ) -> None:
        self._requests, self._leasing, self._clock = requests, leasing, clock
        self._server = server
        self._begun: set[str] = set()
        """What is done here, or was, and is not over in the database as far as is known."""
        self._unsaid: set[str] = set()
        """What ended here, while the database could not be told."""

    # --- asking ----------------------------------------------------------------------------------

    async def ask(self, host: str, asked: Asked) -> AsyncGenerator[bytes, None]:
        """The parts of the answer of whoever drives a host; NotDriven where nobody does in time.

        Whoever leaves it ends what is done for it, as a client that leaves its daemon does.
        """
        assert self._requests is not None
        ident = self._clock.new_id(16)
        request = Request(id=ident, host=host, **asked._asdict())
        wanting = asyncio.create_task(self._want(ident), name=f"want {asked.path}")
        try:
            await self._surely(lambda: self._store.ask(request))
            async with aclosing(self._parts(request)) as parts:
                async for part in parts:
                    yield part
        finally:
            wanting.cancel()
            await asyncio.gather(wanting, return_exceptions=True)
            with suppress(StoreError):
                await self._store.leave(ident)

    async def document(self, host: str, asked: Asked) -> dict[str, Any]:
        """The one document of an answer; ApiError where it is refused there."""
        content = b""
        async with aclosing(self.ask(host, asked)) as parts:
            head = json.loads(await anext(parts))
            async for part in parts:
                content += part
        answer: dict[str, Any] = json.loads(content)
        if head["status"] != 200:
            error = answer["error"]
            raise ApiError(error["message"], remedy=error["remedy"], exit_code=error["exit_code"])
        return answer

    async def _want(self, request: str) -> None:
        """Whoever asked may read slowly, and so ask for no further part for a long time."""
        while True:
            await self._clock.sleep(WANT_EVERY_S)
            with suppress(StoreError):
                await self._store.want(request)

    async def _parts(self, request: Request) -> AsyncGenerator[bytes, None]:
        have, since = 0, self._clock.monotonic()
        while True:
            bell = self._store.pushed.bell()
            progress = await self._surely(lambda have=have: self._store.read(request.id, have))
            for part in progress.parts:
                have += 1
                yield part
            if progress.over:
                return
            if not progress.parts:
                self._require_taker(request, progress, since)
                await rung(bell, LOOK_S)

    def _require_taker(self, request: Request, progress: Progress, since: float) -> None:
        if not progress.taken and self._clock.monotonic() - since > TAKEN_WITHIN_S:
            raise self._leasing.elsewhere(request.host)
        if progress.broken:
            raise DaemonError(
                f"The daemon that drove {request.host} did not end its answer; what was asked may "
                "have been done.",
                remedy="`orch status` shows what is so; then ask once more.",
            )

    async def _surely(self, call: Any) -> Any:
        """What the database says, also where it cuts a connection or is away for a while."""
        deadline = self._clock.monotonic() + UNSEEN_S
        while True:
            try:
                return await call()
            except StoreError:
                if self._clock.monotonic() > deadline:
                    raise
                await self._clock.sleep(1.0)

    @property
    def _store(self) -> Requests:
        assert self._requests is not None
        return self._requests

    # --- answering -------------------------------------------------------------------------------

    async def run(self) -> None:
        """For ever, where the fleet is shared."""
        if self._requests is None:
            return
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._store.pushed.run(), name="requests pushed")
            while True:
                bell = self._store.pushed.bell()
                for request in await self._taken():
                    self._begun.add(request.id)
                    tasks.create_task(self._answer(request), name=f"request {request.path}")
                await rung(bell, LOOK_S)

    async def _taken(self) -> tuple[Request, ...]:
        for ident in tuple(self._unsaid):
            await self._end(ident)
        held = [lease.host for lease in self._leasing.all if self._leasing.drives(lease.host)]
        if not held or self._unsaid:
            return ()
        try:
            return await self._store.take(held, self._begun)
        except StoreError as error:
            logger.warning("requests.unseen", extra={"why": str(error)})
            return ()

    async def _answer(self, request: Request) -> None:
        """Do it, for as long as somebody wants it."""
        logger.info("request.taken", extra={"path": request.path, "by": request.by})
        work = asyncio.create_task(self._tried(request))
        try:
            while not (await asyncio.wait({work}, timeout=LOOK_S))[0]:
                with suppress(StoreError):
                    if not (await self._store.room(request.id)).wanted:
                        logger.info("request.left", extra={"path": request.path})
                        return
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
            await self._end(request.id)

    async def _end(self, request: str) -> None:
        """Whatever became of it, its asker is not left waiting; it is not begun again."""
        try:
            await self._store.break_off(request)
        except StoreError:
            self._unsaid.add(request)
        else:
            self._unsaid.discard(request)
            self._begun.discard(request)

    async def _tried(self, request: Request) -> None:
        try:
            await self._done(request)
        except Exception as error:  # noqa: BLE001  no request ends the answering of all others
            logger.warning("request.failed", extra={"path": request.path, "why": str(error)})

    async def _done(self, request: Request) -> None:
        found = _PATH.match(request.path)
        if found is None or found[1] not in PASSED:
            raise DaemonError(f"{request.path} is nothing that daemons ask of each other.")
        asked = Asked(request.method, request.path, request.body, request.by)
        number = 0
        async with aclosing(answered_here(asked, self._server)) as parts:
            async for part in parts:
                await self._put(request.id, number, part)
                number += 1
        await self._surely(lambda: self._store.finish(request.id))

    async def _put(self, request: str, number: int, part: bytes) -> None:
        bell = self._store.pushed.bell()
        room = await self._surely(lambda: self._store.put(request, number, part))
        while room.unread > MOST_UNREAD:
            await rung(bell, LOOK_S)
            bell = self._store.pushed.bell()
            room = await self._surely(lambda: self._store.room(request))
