"""Reading a log of any size: where the eye is, which lines are shown, which range to fetch next.

Pure: it holds a window of lines and says what it wants; somebody else asks the daemon for it, and
somebody else paints. A place is the byte offset of a line, so nothing moves when lines come or go
at the far ends.
"""

from typing import NamedTuple

from orchestrator.api.client import LogPart
from tui import text
from tui.loglines import LogLine, LogWindow

CHUNK_BYTES = 256 * 1024
FAR_BEHIND_BYTES = 4 * 1024 * 1024
"""Following a log that is this far ahead, the view jumps instead of reading all that is between."""
NEAR_LINES = 500
LEVELS = ("", "W", "E")
_AT_LEAST = {"W": "WEC", "E": "EC"}


class Want(NamedTuple):
    """A range to fetch; `kind` is `fresh`, `next` or `before`."""

    kind: str
    offset: int
    size: int


class Piece(NamedTuple):
    """What one line of the screen shows of a line of the log."""

    line: LogLine
    at: int
    """Index of the line in the window."""
    sub: int
    text: str


class Reading:
    """One reader of one log; follows its end until somebody scrolls up."""

    def __init__(self) -> None:
        self.window = LogWindow()
        self.following = True
        self.wrapped = True
        self.rank: int | None = None
        self.level = ""
        self.marked: int | None = None
        """Offset of the line that was jumped to."""
        self.width, self.height = 80, 20
        self._anchor = self._sub = 0
        self._goal: int | None = None
        """Offset to load around, where the window holds another place."""
        self._lift = False
        """The anchor is to stand a third down the screen, once it is there."""
        self._loaded = False
        self._behind = False
        """There is said to be more than was read of."""

    # --- what to fetch ---------------------------------------------------------------------------

    def told(self, attempt: int, size: int) -> None:
        """The log of that attempt is said to have that many bytes; what is read knows better."""
        if attempt != self.window.attempt:
            self.window = LogWindow()
            self.window.attempt = attempt
            self.window.size = size
            self._loaded, self.following, self._goal = False, True, None
        self._behind = size > self.window.size

    def wanted(self) -> Want | None:
        """The range to fetch next, or None where all that is looked at is there."""
        window = self.window
        newest = max(window.size - CHUNK_BYTES, 0)
        if not self._loaded:
            begin = newest if self._goal is None else max(self._goal - CHUNK_BYTES // 2, 0)
            return Want("fresh", begin, CHUNK_BYTES)
        if self.following and window.size - window.end > FAR_BEHIND_BYTES:
            return Want("fresh", newest, CHUNK_BYTES)
        top = len(window.lines) if self.following else window.index_at(self._anchor)
        if (not window.at_end or self._behind) and (self.following or self._near(top, 1)):
            return Want("next", window.end, CHUNK_BYTES)
        if window.start > 0 and self._near(top, -1):
            offset = max(window.start - CHUNK_BYTES, 0)
            return Want("before", offset, window.start - offset)
        return None

    def newer(self) -> Want:
        """The range behind all that is known, to see whether there is something."""
        return Want("next", self.window.end, CHUNK_BYTES)

    def take(self, want: Want, part: LogPart) -> bool:
        """Take a range that was wanted; False where nothing came of it."""
        window = self.window
        window.size, self._behind = part.size, False
        match want.kind:
            case "fresh" if part.size < part.offset:
                return True  # less is stored than was said; now its size is known
            case "fresh":
                cut = part.content.find(b"\n") + 1 if part.offset > 0 else 0
                window.reset(part.offset + cut)
                window.append(part.content[cut:])
                self._loaded, self._goal = True, None
            case "next" if part.offset == window.end:
                window.append(part.content)
            case "before" if part.end == window.start:
                window.prepend(part.content, part.offset)
            case _:
                return False
        return bool(part.content)

    def _shows(self, line: LogLine) -> bool:
        if self.rank is not None and line.rank != self.rank:
            return False
        return not self.level or (line.level != "" and line.level in _AT_LEAST[self.level])

    def _near(self, index: int, way: int) -> bool:
        """Whether there are few shown lines from there that way."""
        lines, found = self.window.lines, 0
        at = index + min(way, 0)
        while 0 <= at < len(lines):
            found += self._shows(lines[at])
            if found >= NEAR_LINES:
                return False
            at += way
        return True

    # --- where the eye is ------------------------------------------------------------------------

    def jump(self, offset: int) -> None:
        """Put the line that holds that byte a third down the screen, and mark it."""
        self.following, self._anchor, self._sub, self._lift = False, offset, 0, True
        self.marked = offset
        window = self.window
        if not self._loaded or not window.start <= offset < window.end:
            self._loaded, self._goal = False, offset

    def first(self) -> None:
        """Go to the beginning of the log."""
        self.jump(0)
        self.marked, self._lift = None, False

    def follow(self) -> None:
        """Go to the end, and along with it."""
        if not self.window.at_end or self._goal is not None:
            self._loaded, self._goal = False, None
        self.following, self.marked = True, None

    def pause(self) -> None:
        """Stay where the eye is."""
        self.scroll(0)

    def scroll(self, by: int) -> None:
        """Move by lines of the screen; following begins again at the end of the log."""
        rows = self.rows()
        if not rows:
            return
        top = self._walk(rows[0].at, rows[0].sub, by)
        self._anchor, self._sub = self.window.lines[top[0]].offset, top[1]
        was, self.following = self.following, False
        below = self.rows()
        if (by > 0 and self.window.at_end and self._is_end(below)) or (by > 0 and was):
            self.following = True

    def _is_end(self, rows: list[Piece]) -> bool:
        """Whether the last shown line of the window is on the screen, or above its end."""
        if len(rows) < self.height:
            return True
        last = rows[-1]
        behind = self._walk(last.at, last.sub, 1)
        return behind == (last.at, last.sub)

    def place(self) -> int:
        """Byte offset of the line at the top."""
        rows = self.rows()
        return rows[0].line.offset if rows else self._anchor

    # --- what is on the screen -------------------------------------------------------------------

    def rows(self) -> list[Piece]:
        """The lines of the screen, from its top."""
        lines = self.window.lines
        if not lines or not self._loaded:
            return []
        if self.following:
            return self._upwards(len(lines))
        index, sub = self.window.index_at(self._anchor), self._sub
        if self._lift:
            self._lift = False
            index, sub = self._walk(index, 0, -(self.height // 3))
            self._anchor, self._sub = lines[index].offset, sub
        rows = self._downwards(index, sub)
        return rows if len(rows) >= self.height else self._upwards(len(lines))

    def _upwards(self, index: int) -> list[Piece]:
        rows: list[Piece] = []
        while index > 0 and len(rows) < self.height:
            index -= 1
            if self._shows(self.window.lines[index]):
                rows += reversed(self._pieces(index))
        return rows[: self.height][::-1]

    def _downwards(self, index: int, sub: int) -> list[Piece]:
        rows: list[Piece] = []
        while index < len(self.window.lines) and len(rows) < self.height:
            if self._shows(self.window.lines[index]):
                rows += self._pieces(index)[sub:]
            index, sub = index + 1, 0
        return rows[: self.height]

    def _pieces(self, index: int) -> list[Piece]:
        line = self.window.lines[index]
        texts = text.chop(line.text, self.width) if self.wrapped else [line.text]
        return [Piece(line, index, sub, piece) for sub, piece in enumerate(texts)]

    def _walk(self, index: int, sub: int, by: int) -> tuple[int, int]:
        """The place so many shown lines further, or the last there is that way."""
        way = 1 if by > 0 else -1
        left, here = abs(by), (index, sub)
        while left > 0:
            count = len(self._pieces(here[0]))
            inside = here[1] + way
            if 0 <= inside < count:
                here, left = (here[0], inside), left - 1
                continue
            beyond = here[0] + way
            while 0 <= beyond < len(self.window.lines) and not self._shows(
                self.window.lines[beyond]
            ):
                beyond += way
            if not 0 <= beyond < len(self.window.lines):
                return here
            here = (beyond, 0 if way > 0 else len(self._pieces(beyond)) - 1)
            left -= 1
        return here
