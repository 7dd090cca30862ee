"""Lines out of a channel's bytes, with a limit that a hostile far side cannot pass."""

from orchestrator.probe.frames import MAX_FRAME_BYTES, BadFrame
from orchestrator.transport.base import Channel

_BULK_BYTES = 256 * 1024


class Lines:
    """The stdout of a channel, line by line; `num_bytes` counts all that came."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._buffer = bytearray()
        self._searched = 0
        self.num_bytes = 0

    async def next(self) -> bytes | None:
        """The next line without its end; None at the end of the stream.

        BadFrame where a line is longer than a frame may be.
        """
        while (end := self._buffer.find(b"\n", self._searched)) < 0:
            self._searched = len(self._buffer)
            if self._searched > MAX_FRAME_BYTES:
                raise BadFrame(f"a line longer than {MAX_FRAME_BYTES} bytes")
            chunk = await self._channel.read()
            if not chunk:
                return None
            self.num_bytes += len(chunk)
            self._buffer += chunk
        return self._taken(end)

    async def behind(self, size: int) -> bytes:
        """The `size` bytes that follow the line; fewer where the stream ends."""
        while len(self._buffer) < size:
            chunk = await self._channel.read(_BULK_BYTES)
            if not chunk:
                break
            self.num_bytes += len(chunk)
            self._buffer += chunk
        taken = bytes(self._buffer[:size])
        del self._buffer[:size]
        return taken

    def _taken(self, end: int) -> bytes:
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        self._searched = 0
        return line
