"""A window on a log that may be any size: lines with their byte offsets, bounded on both sides.

Pure. Bytes go in at either end, lines that were cleaned come out; it asks nobody for bytes, and
does not know how lines are painted. A line's offset is its name: it never changes.
"""

import re
from bisect import bisect_right
from dataclasses import dataclass

from orchestrator.core.parse.searching import shown_text
from orchestrator.core.parse.terminal import read_prefix

MAX_LINES = 20_000
MAX_OPEN_BYTES = 256 * 1024
"""A line longer than this is shown in pieces."""

_ERROR = re.compile(r"Traceback \(|(?:\w+\.)*\w+(?:Error|Exception|Interrupt)\b|FATAL|CRITICAL")


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line as it was seen on a terminal; `level` is `D I W E C`, or empty."""

    offset: int
    end: int
    text: str
    rank: int | None
    level: str


class LogWindow:
    """The lines of the bytes from `start` to `end` of one attempt's log."""

    def __init__(self) -> None:
        self.attempt: int | None = None
        self.size = 0
        """Of the whole log, as far as is known."""
        self.reset(0)

    def reset(self, offset: int) -> None:
        """Hold nothing, and go on at an offset that begins a line."""
        self.lines: list[LogLine] = []
        self.ranks: set[int] = set()
        self.start = self.end = offset
        self._open = b""
        """The bytes of the last line, which has not ended."""

    def append(self, content: bytes) -> None:
        """Bytes that follow on `end`; lines at the other end go where there are too many."""
        if self._open and self.lines:
            self.lines.pop()
        pieces = (self._open + content).split(b"\n")
        offset = self.end - len(self._open)
        self._open = pieces.pop()
        for piece in pieces:
            offset = self._add(piece, offset, ended=True)
        if self._open:
            self._add(self._open, offset, ended=False)
        if len(self._open) > MAX_OPEN_BYTES:
            self._open = b""
        self.end += len(content)
        self._drop_first(len(self.lines) - MAX_LINES)

    def _add(self, raw: bytes, offset: int, *, ended: bool) -> int:
        end = offset + len(raw) + ended
        previous = self.lines[-1] if self.lines else None
        self.lines.append(self._line(raw, offset, end, previous))
        return end

    def _line(self, raw: bytes, offset: int, end: int, previous: LogLine | None) -> LogLine:
        shown = shown_text(raw)
        prefix = read_prefix(shown)
        level, rank = prefix.level, prefix.rank
        if not level:
            level = "E" if _ERROR.match(shown, prefix.width) else ""
        if previous is not None and shown[:1] in {" ", "\t"}:
            # An indented line goes with the one above it, as a traceback's frames do.
            level, rank = level or previous.level, previous.rank if rank is None else rank
        if rank is not None:
            self.ranks.add(rank)
        return LogLine(offset, end, shown, rank, level)

    def prepend(self, content: bytes, offset: int) -> None:
        """Bytes from `offset` to `start`; the last lines go where there are too many.

        A line whose beginning is not in them is left out, to be read again with what is before.
        """
        if offset > 0:
            cut = content.find(b"\n") + 1
            if 0 < cut < len(content):
                content, offset = content[cut:], offset + cut
        if not content:
            return
        added: list[LogLine] = []
        at = offset
        pieces = content.split(b"\n")
        last = pieces.pop()
        for piece in pieces:
            added.append(self._line(piece, at, at + len(piece) + 1, added[-1] if added else None))
            at = added[-1].end
        if last:
            added.append(self._line(last, at, self.start, added[-1] if added else None))
        self.lines[:0] = added
        self.start = offset
        self._drop_last(len(self.lines) - MAX_LINES)

    def _drop_first(self, count: int) -> None:
        if count > 0:
            del self.lines[:count]
            self.start = self.lines[0].offset

    def _drop_last(self, count: int) -> None:
        if count > 0:
            del self.lines[-count:]
            self.end, self._open = self.lines[-1].end, b""

    @property
    def at_end(self) -> bool:
        """Whether the newest known byte is in the window."""
        return self.end >= self.size

    def index_at(self, offset: int) -> int:
        """Index of the line that holds that byte, or of the nearest one."""
        index = bisect_right(self.lines, offset, key=lambda line: line.offset) - 1
        return max(index, 0)

    def line_at(self, offset: int) -> LogLine | None:
        """The line that holds that byte, where it is in the window."""
        line = self.lines[self.index_at(offset)] if self.lines else None
        return line if line is not None and line.offset <= offset < line.end else None
