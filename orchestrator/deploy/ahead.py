"""Connections for large deploys, opened while it is still found out what has to be sent.

Owns how long they live: whatever was begun here ends here, used or not.
"""

import asyncio
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from orchestrator.core.errors import Unreachable
from orchestrator.core.model import Job
from orchestrator.deploy.plan import Caller, look


class Link(Protocol):
    """What can open a connection for many bytes."""

    def bulk(self) -> AbstractAsyncContextManager[Caller]:
        """A connection of its own, closed behind it."""
        ...


class Ahead:
    """An async context manager; the connections that it opened are closed as it is left."""

    def __init__(self) -> None:
        self._opening: dict[Link, asyncio.Future[Caller]] = {}
        self._holding: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> "Ahead":
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._holding:
            task.cancel()
        await asyncio.gather(*self._holding, return_exceptions=True)

    def open(self, link: Link, job: Job) -> None:
        """Begin to open a connection; returns at once, and fails never: `bulk` tells.

        Its far end loads what a deploy needs, and what is known of the job's current release.
        """
        if link not in self._opening:
            opened = self._opening[link] = asyncio.get_running_loop().create_future()
            self._holding.append(asyncio.create_task(_hold(link, job, opened), name="deploy ahead"))

    async def bulk(self, link: Link, job: Job) -> Caller:
        """The connection that was opened ahead, where it still answers, or one that is opened now.

        TargetError where it cannot be had.
        """
        if link in self._opening:
            try:
                caller = await self._opening[link]
                await look(caller, job)
            except Unreachable:
                del self._opening[link]
            else:
                return caller
        self.open(link, job)
        return await self._opening[link]


async def _hold(link: Link, job: Job, opened: asyncio.Future[Caller]) -> None:
    try:
        async with link.bulk() as caller:
            await look(caller, job)
            opened.set_result(caller)
            await asyncio.Event().wait()  # until it is cancelled
    except Exception as exc:  # noqa: BLE001  raised to whoever asks for the connection
        if not opened.done():
            opened.set_exception(exc)
            opened.exception()  # asyncio complains of one that nobody looked at
    finally:
        opened.cancel()
