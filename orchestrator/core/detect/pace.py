"""How much of a log is read line by line: all of a usual one, a share of one that never ends.

Owns the budget of lines, and the choice of what is read once it is spent. Reads no line itself.
"""

from collections.abc import Iterator

from orchestrator.core.detect.prefilter import Rarities

READ_LINES = 4000
"""Read of any log, whatever the rest of it is like."""
FINDING_LINES = 2
"""A finding costs as much as so many lines."""
LINE_BYTES = 1 << 16
"""Of what passes, one line may be read beyond that for each so many bytes."""
ENOUGH_LINES = 1000
"""What must have come together again before all is read for a while."""
FIRST_BYTES = 1 << 9
AROUND_BYTES = 1 << 12
"""Read before something rare; behind it a quarter of it."""


class Pace:
    """The budget: `spend` it, ask whether to be `thrifty`, and for the `parts` to be read then."""

    def __init__(self, rarities: Rarities) -> None:
        self._rarities = rarities
        self._left = READ_LINES * LINE_BYTES
        """In bytes that have to pass for what may be read."""
        self._spent = False

    def thrifty(self) -> bool:
        """Whether only parts are read for now."""
        return self._spent

    def spend(self, *, read: int, passed: int) -> None:
        """Counts lines read and bytes that passed, those of the lines among them."""
        left = self._left + passed - read * LINE_BYTES
        self._left = min(READ_LINES * LINE_BYTES, left)
        self._spent = left < (ENOUGH_LINES * LINE_BYTES if self._spent else 0)

    def parts(
        self, text: bytes, begin: int, end: int, last_bytes: int
    ) -> Iterator[tuple[int, int]]:
        """Where to read of whole lines: at the beginning, around what is rare, at the end."""
        first = text.find(b"\n", begin + FIRST_BYTES, end) + 1 or end
        last = max(first, text.rfind(b"\n", first, max(first, end - last_bytes)) + 1)
        yield begin, first
        read = first
        for found in self._rarities.ends(memoryview(text)[first:last]):
            above = max(first, first + found - AROUND_BYTES)
            start = max(read, text.rfind(b"\n", first, above) + 1, first)
            stop = text.find(b"\n", first + found + AROUND_BYTES // 4, last) + 1 or last
            if stop > read:
                yield start, stop
                read = stop
        if last < end:
            yield last, end
