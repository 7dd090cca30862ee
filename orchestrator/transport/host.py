"""A host reached by SSH, and the ways of its targets over the connections that they share.

Owns which commands go over which connections: large transfers have theirs to themselves.
"""

import asyncio
from functools import partial

from orchestrator.core.command import Command, marked_line
from orchestrator.core.errors import TargetError
from orchestrator.core.model import Host
from orchestrator.transport.base import Channel, Completed
from orchestrator.transport.connections import Connections
from orchestrator.transport.door import Door
from orchestrator.transport.marked import MarkedChannel
from orchestrator.transport.running import run_to_end
from orchestrator.transport.ssh import connect


class SshHost:
    """One host and its connections. The errors of connecting carry the host's name."""

    def __init__(self, host: Host) -> None:
        one_at_a_time = asyncio.Lock()
        self._door = Door()
        self._lanes = {
            bulk: Connections(
                host.name,
                partial(connect, host, self._door),
                one_at_a_time,
                spare=0 if bulk else 1,
            )
            for bulk in (False, True)
        }

    async def start(self, line: bytes, target: str, *, bulk: bool) -> Channel:
        """Run a command line of a target."""
        return await self._lanes[bulk].start(line, target)

    async def answers_again(self) -> None:
        """Until the host is there, where it was not at the last attempt; else for ever."""
        await self._door.answers_again()

    async def close(self) -> None:
        """End every connection."""
        await asyncio.gather(*(lane.close() for lane in self._lanes.values()))
        self._door.close()


class SshTransport:
    """One target's way over its host's connections."""

    def __init__(self, host: SshHost, target: str) -> None:
        self._host, self._target = host, target

    async def open(self, command: Command, *, bulk: bool = False) -> Channel:
        """Start a command as the host's user."""
        try:
            channel = await self._host.start(marked_line(command), self._target, bulk=bulk)
        except TargetError as exc:
            # Several targets may share this very failure; each gets one with its own name.
            raise type(exc)(exc.message, target=self._target, remedy=exc.remedy) from exc
        return MarkedChannel(channel, self._target)

    async def run(
        self, command: Command, *, stdin: bytes = b"", timeout_s: float = 30.0
    ) -> Completed:
        """Run a command to its end."""
        channel = await self.open(command)
        return await run_to_end(channel, stdin=stdin, timeout_s=timeout_s, target=self._target)

    async def answers_again(self) -> None:
        """As its host."""
        await self._host.answers_again()

    async def close(self) -> None:
        """The connections are the host's; nothing is this target's own."""
