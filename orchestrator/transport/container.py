"""A target on a host: a transport around the host's transport.

Owns nothing of its own: the runtime's words are core/runtimes.py's, the way is the inner one's.
"""

from orchestrator.core.command import Command
from orchestrator.core.model import Target
from orchestrator.core.runtimes import wrap
from orchestrator.transport.base import Channel, Completed, Transport, Way


class ContainerTransport:
    """Runs every command inside the target's container; `runtime: none` is the host itself."""

    def __init__(self, host: Transport, target: Target) -> None:
        self._host, self._target = host, target

    @property
    def way(self) -> Way | None:
        """As the host."""
        return self._host.way

    async def open(self, command: Command, *, bulk: bool = False, lasting: bool = False) -> Channel:
        """Start a command inside."""
        return await self._host.open(wrap(self._target, command), bulk=bulk, lasting=lasting)

    async def run(
        self, command: Command, *, stdin: bytes = b"", timeout_s: float = 30.0
    ) -> Completed:
        """Run a command inside to its end."""
        return await self._host.run(wrap(self._target, command), stdin=stdin, timeout_s=timeout_s)

    async def answers_again(self) -> None:
        """As the host."""
        await self._host.answers_again()

    async def close(self) -> None:
        """Let go of what the host's transport holds for this target."""
        await self._host.close()
