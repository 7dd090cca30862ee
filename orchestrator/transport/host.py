"""A host reached by SSH, and the ways of its targets over the connections that they share.

Owns which commands go over which connections: large transfers have theirs to themselves.
"""

import asyncio
import contextlib
from functools import partial

from orchestrator.core.command import Command, marked_line, shell_line
from orchestrator.core.errors import TargetError
from orchestrator.core.model import Host
from orchestrator.transport.base import Channel, Completed, Way
from orchestrator.transport.connections import Connections
from orchestrator.transport.door import Door
from orchestrator.transport.marked import MarkedChannel
from orchestrator.transport.running import run_to_end
from orchestrator.transport.ssh import connect
from orchestrator.transport.trunk import Trunk
from orchestrator.transport.trunk_holder import NoTrunk


class SshHost:
    """One host and its connections. The errors of connecting carry the host's name."""

    def __init__(self, host: Host, *, lasting: bool) -> None:
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

        self._trunk = (
            Trunk(host.name, partial(self.start, target=host.name), self._door.answers_again)
            if lasting
            else None
        )

    @property
    def trunk(self) -> Trunk | None:
        """What carries lasting channels, where there may be one and the host can hold one."""
        return self._trunk if self._trunk is not None and self._trunk.usable else None

    async def start(self, line: bytes, target: str, *, bulk: bool = False) -> Channel:
        """Run a command line of a target."""
        return await self._lanes[bulk].start(line, target)

    async def answers_again(self) -> None:
        """Until the host is there, where it was not at the last attempt; else for ever."""
        await self._door.answers_again()

    async def close(self) -> None:
        """End every connection."""
        if self._trunk is not None:
            await self._trunk.close()
        await asyncio.gather(*(lane.close() for lane in self._lanes.values()))
        self._door.close()


class SshTransport:
    """One target's way over its host's connections."""

    def __init__(self, host: SshHost, target: str) -> None:
        self._host, self._target = host, target

    @property
    def way(self) -> Way | None:
        """The host's trunk."""
        return self._host.trunk

    async def open(self, command: Command, *, bulk: bool = False, lasting: bool = False) -> Channel:
        """Start a command as the host's user."""
        try:
            if lasting and (held := await self._held(command)) is not None:
                return held
            channel = await self._host.start(marked_line(command), self._target, bulk=bulk)
        except TargetError as exc:
            # Several targets may share this very failure; each gets one with its own name.
            raise type(exc)(exc.message, target=self._target, remedy=exc.remedy) from exc
        return MarkedChannel(channel, self._target)

    async def _held(self, command: Command) -> Channel | None:
        trunk = self._host.trunk
        if trunk is not None:
            with contextlib.suppress(NoTrunk):
                return await trunk.open(shell_line(command), self._target)
        return None

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
