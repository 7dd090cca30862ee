"""A channel without the noise of its login shell: what comes before MARK is thrown away.

bash reads .bashrc for a command over ssh too, and many a .bashrc prints.
"""

from orchestrator.core.command import MARK
from orchestrator.core.errors import Unreachable
from orchestrator.transport.base import Channel

NOISE_LIMIT_BYTES = 1024 * 1024


class MarkedChannel:
    """A channel whose command line was made by core.command.marked_line."""

    def __init__(self, channel: Channel, target: str) -> None:
        self._channel, self._target = channel, target
        self._marked = False
        self._rest = b""
        self.write, self.close_stdin = channel.write, channel.close_stdin
        self.wait, self.close = channel.wait, channel.close
        self.stderr_tail = channel.stderr_tail

    async def read(self, size: int = 65536) -> bytes:
        """Next bytes of the command's own stdout."""
        if not self._marked:
            self._rest = await self._past_mark()
            self._marked = True
        if self._rest:
            chunk, self._rest = self._rest[:size], self._rest[size:]
            return chunk
        return await self._channel.read(size)

    async def _past_mark(self) -> bytes:
        noise = bytearray()
        while (found := noise.find(MARK)) < 0:
            if len(noise) > NOISE_LIMIT_BYTES:
                raise Unreachable(
                    f"{self._target}: the login shell printed {len(noise) >> 10} KiB, ran nothing.",
                    target=self._target,
                    remedy="Look at what .bashrc there prints.",
                )
            chunk = await self._channel.read()
            if not chunk:
                return b""
            noise += chunk
        return bytes(noise[found + len(MARK) :])
