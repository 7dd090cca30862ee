"""Bytes of a run's output -> the same number of bytes, its secrets' values covered by stars.

Owns values that are cut between two chunks. Offsets stay what they are on the target.
"""

from collections.abc import Iterable

from orchestrator.core.parse.secrets import MIN_VALUE_CHARS

_STAR = b"*"
_COVERED = 4
"""So much of a value at a chunk's end is covered before its rest is seen; less shows nothing."""


class Mask:
    """Covers the values in chunks of one stream, in their order."""

    def __init__(self, values: Iterable[str]) -> None:
        known = {value.encode("utf-8", "surrogateescape") for value in values}
        # A terminal, and what quotes text, write the lines of a key in other ways than a file.
        known |= {value.replace(b"\n", end) for value in known for end in (b"\r\n", b"\\n")}
        long_enough = (value for value in known if len(value) >= MIN_VALUE_CHARS)
        self._values = sorted(long_enough, key=len, reverse=True)
        self._end = 0
        self._rests: list[bytes] = []
        """What would complete a value that began before `_end`."""

    def cover(self, offset: int, chunk: bytes) -> bytes:
        """The chunk that begins at `offset`, covered."""
        if not self._values or not chunk:
            return chunk
        covered, rests = bytearray(chunk), []
        for rest in self._rests if offset == self._end else ():
            if chunk.startswith(rest):
                covered[: len(rest)] = _STAR * len(rest)
            elif rest.startswith(chunk):
                covered[:] = _STAR * len(chunk)
                rests.append(rest[len(chunk) :])
        for value in self._values:
            self._cover_whole(covered, chunk, value)
            size = _begun(chunk, value)
            if size:
                rests.append(value[size:])
            if size >= _COVERED:
                covered[-size:] = _STAR * size
        self._end, self._rests = offset + len(chunk), rests
        return bytes(covered)

    @staticmethod
    def _cover_whole(covered: bytearray, chunk: bytes, value: bytes) -> None:
        at = chunk.find(value)
        while at >= 0:
            covered[at : at + len(value)] = _STAR * len(value)
            at = chunk.find(value, at + 1)


def _begun(chunk: bytes, value: bytes) -> int:
    """How much of a value a chunk ends with; 0 where nothing."""
    sizes = range(min(len(value) - 1, len(chunk)), 0, -1)
    return next((size for size in sizes if chunk.endswith(value[:size])), 0)
