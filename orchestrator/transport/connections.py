"""Connections to one host and the channels on them: how many, and when there is another.

Owns the count: sshd lets 10 sessions onto a connection (MaxSessions), so 8 are used, fewer where
it refuses earlier; new connections are opened one after the other, since sshd drops some of those
that come at once (MaxStartups). Knows no SSH.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from orchestrator.core.errors import TargetError, Unreachable
from orchestrator.transport.base import Channel

CHANNELS_PER_CONNECTION = 8


class ChannelRefused(Exception):  # noqa: N818  a fact for this module, not an error that travels
    """The host lets no further channel onto this connection (`open failed`)."""


class Connection(Protocol):
    """One authenticated connection to a host."""

    @property
    def alive(self) -> bool:
        """False once it was closed or lost."""
        ...

    async def start(self, line: bytes, target: str) -> Channel:
        """Run a command line of a target; ChannelRefused where there is no room on this one."""
        ...

    async def close(self) -> None:
        """End it and every channel on it."""
        ...


@dataclass(slots=True, eq=False)
class _Shared:
    connection: Connection
    limit: int
    num_channels: int = 0

    @property
    def has_room(self) -> bool:
        return self.connection.alive and self.num_channels < self.limit


class Connections:
    """The connections of one kind to one host; they grow with need and shrink to `spare`."""

    def __init__(
        self,
        host: str,
        connect: Callable[[], Awaitable[Connection]],
        one_at_a_time: asyncio.Lock,
        *,
        spare: int,
    ) -> None:
        self._host, self._connect, self._one_at_a_time = host, connect, one_at_a_time
        self._spare = spare
        self._shared: list[_Shared] = []
        self._limit = CHANNELS_PER_CONNECTION
        self._growing: asyncio.Task[None] | None = None

    async def start(self, line: bytes, target: str) -> Channel:
        """Run a command line of a target on whichever connection has room."""
        while True:
            shared = next((one for one in self._shared if one.has_room), None)
            if shared is None:
                await self._grow()
                continue
            shared.num_channels += 1
            try:
                channel = await shared.connection.start(line, target)
            except ChannelRefused as exc:
                self._learn(shared, exc)
                continue
            except TargetError:
                await self._release(shared)
                if shared.connection.alive:
                    raise
                continue  # it had died unnoticed; a fresh one says whether the host is there
            except BaseException:
                await self._release(shared)
                raise
            return _Counted(channel, partial(self._release, shared))

    async def close(self) -> None:
        """End every connection."""
        if self._growing is not None:
            self._growing.cancel()
            await asyncio.gather(self._growing, return_exceptions=True)
        shared, self._shared = self._shared, []
        await asyncio.gather(*(one.connection.close() for one in shared))

    def _learn(self, shared: _Shared, refusal: ChannelRefused) -> None:
        shared.num_channels -= 1
        if shared.num_channels == 0:
            raise Unreachable(
                f"{self._host}: the host lets us in and refuses every command: {refusal}.",
                target=self._host,
                remedy="Look at MaxSessions, ForceCommand and the shell of the user there.",
            ) from refusal
        shared.limit = self._limit = shared.num_channels

    async def _grow(self) -> None:
        """One more connection; all that wait for one wait for the same attempt."""
        if self._growing is None or self._growing.done():
            self._growing = asyncio.create_task(self._add(), name=f"connect {self._host}")
            self._growing.add_done_callback(_look_at)
        await asyncio.shield(self._growing)

    async def _add(self) -> None:
        lost = [one for one in self._shared if not one.connection.alive]
        self._shared = [one for one in self._shared if one.connection.alive]
        # What was lost may still hold the jumps before it.
        await asyncio.gather(*(one.connection.close() for one in lost))
        async with self._one_at_a_time:
            connection = await self._connect()
        self._shared.append(_Shared(connection, self._limit))

    async def _release(self, shared: _Shared) -> None:
        shared.num_channels -= 1
        if shared.num_channels == 0 and len(self._shared) > self._spare:
            if shared in self._shared:
                self._shared.remove(shared)
            await shared.connection.close()


def _look_at(growing: asyncio.Task[None]) -> None:
    """asyncio complains of a failure that nobody waited for any more."""
    if not growing.cancelled():
        growing.exception()


class _Counted:
    """A channel that gives its place back."""

    def __init__(self, channel: Channel, release: Callable[[], Awaitable[None]]) -> None:
        self._channel = channel
        self._release: Callable[[], Awaitable[None]] | None = release
        self.write, self.close_stdin = channel.write, channel.close_stdin
        self.read, self.wait = channel.read, channel.wait
        self.stderr_tail = channel.stderr_tail

    async def close(self) -> None:
        release, self._release = self._release, None
        if release is not None:
            try:
                await self._channel.close()
            finally:
                await release()
