"""The words of a trunk: frames, and streams that are sent again from where they were cut.

Both ends use this file; its text travels to the host by itself: stdlib only, Python 3.10.
A frame is kind, channel, offset, size, and so many bytes. Every stream of a channel is numbered
by its bytes; what a cut has swallowed is sent again from where the other side says that it is.
"""

import struct

HEAD = struct.Struct(">cIQI")
OPEN, IN, IN_END, CLOSE = b"o", b"i", b"e", b"c"
OUT, ERR, EXIT = b"1", b"2", b"x"
ACK_IN, ACK_OUT, ACK_ERR = b"I", b"O", b"E"
PING, PONG, RESUME, BYE = b"?", b"!", b"r", b"b"
"""RESUME is the first frame each way: a MARK for each channel, with what came of its streams."""
MARK = struct.Struct(">IQQ")

WINDOW_BYTES = 1024 * 1024
"""Of one stream, what the other side has not taken yet; whoever prints more than that waits."""
ACK_BYTES = WINDOW_BYTES // 8
PART_BYTES = 64 * 1024
WIRE_BYTES = 256 * 1024


class BadTrunk(ValueError):
    """Bytes that are no frame of a trunk, or a frame that does not follow the one before."""


def frame(kind: bytes, channel: int = 0, offset: int = 0, content: bytes = b"") -> bytes:
    """One frame."""
    return HEAD.pack(kind, channel, offset, len(content)) + content


class Frames:
    """Frames out of bytes as they come."""

    def __init__(self) -> None:
        self._come = bytearray()

    def take(self, chunk: bytes) -> "list[tuple[bytes, int, int, bytes]]":
        """The frames that are whole now; BadTrunk where one is larger than any may be."""
        self._come += chunk
        found, at = [], 0
        while len(self._come) - at >= HEAD.size:
            kind, channel, offset, size = HEAD.unpack_from(self._come, at)
            if size > WINDOW_BYTES:
                raise BadTrunk(f"a frame of {size} bytes")
            end = at + HEAD.size + size
            if len(self._come) < end:
                break
            found.append((kind, channel, offset, bytes(self._come[at + HEAD.size : end])))
            at = end
        del self._come[:at]
        return found


class Outgoing:
    """A stream on its way out: kept until the other side has taken it."""

    def __init__(self) -> None:
        self._kept = bytearray()
        self._taken = 0
        self._sent = 0

    @property
    def room(self) -> int:
        """Bytes that may still be added."""
        return WINDOW_BYTES - len(self._kept)

    @property
    def end(self) -> int:
        """Bytes that were ever added."""
        return self._taken + len(self._kept)

    @property
    def waits(self) -> bool:
        """Whether there is something to send."""
        return self._sent < self.end

    def add(self, chunk: bytes) -> None:
        """Append."""
        self._kept += chunk

    def next_part(self) -> "tuple[int, bytes]":
        """What to send next, and its offset."""
        offset, at = self._sent, self._sent - self._taken
        part = bytes(self._kept[at : at + PART_BYTES])
        self._sent += len(part)
        return offset, part

    def take(self, offset: int) -> None:
        """The other side has everything before `offset`."""
        if not self._taken <= offset <= self.end:
            raise BadTrunk(f"{offset} was taken, of {self._taken} to {self.end}")
        del self._kept[: offset - self._taken]
        self._taken = offset
        self._sent = max(self._sent, offset)

    def rewind(self, offset: int) -> None:
        """Begin again behind what the other side has."""
        self.take(offset)
        self._sent = offset


class Incoming:
    """A stream as it comes: every byte once."""

    def __init__(self) -> None:
        self.end = 0
        self._told = 0

    def mark(self) -> int:
        """Where to go on behind a cut; what was told before counts no more."""
        self._told = self.end
        return self.end

    def fresh(self, offset: int, chunk: bytes) -> bytes:
        """What of a part is new; BadTrunk where bytes before it are missing."""
        if offset > self.end:
            raise BadTrunk(f"bytes at {offset}, not at {self.end}")
        chunk = chunk[self.end - offset :]
        self.end += len(chunk)
        return chunk

    def to_tell(self, taken: int) -> bool:
        """Whether it is time to say that all before `taken` was taken; it counts as said then."""
        due = taken - self._told >= ACK_BYTES
        if due:
            self._told = taken
        return due
