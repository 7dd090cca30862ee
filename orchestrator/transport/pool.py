"""The transports of a daemon: each target has one, and targets of one host share connections.

Owns who shares what, and the end of it all.
"""

import asyncio
from typing import TYPE_CHECKING

from orchestrator.core.model import Host, Target
from orchestrator.transport.base import Transport
from orchestrator.transport.container import ContainerTransport
from orchestrator.transport.local import LocalTransport

if TYPE_CHECKING:
    from orchestrator.transport.host import SshHost


class Pool:
    """Construct it inside the running loop.

    `lasting`: hold on the hosts what is to outlive a cut connection, for a daemon that stays.
    """

    def __init__(self, *, lasting: bool = False) -> None:
        self._lasting = lasting
        self._hosts: dict[Host, SshHost] = {}

    def transport(self, target: Target) -> Transport:
        """The way to a target; nothing is connected before its first command."""
        host = target.host
        if host.transport == "local":
            return ContainerTransport(LocalTransport(target.name), target)
        # asyncssh costs 0.15 s to import, which a command for this machine alone need not pay.
        from orchestrator.transport.host import SshHost, SshTransport

        if host not in self._hosts:
            self._hosts[host] = SshHost(host, lasting=self._lasting)
        return ContainerTransport(SshTransport(self._hosts[host], target.name), target)

    async def close(self) -> None:
        """End every connection."""
        hosts, self._hosts = self._hosts, {}
        await asyncio.gather(*(host.close() for host in hosts.values()))
