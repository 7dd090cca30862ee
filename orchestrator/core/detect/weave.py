"""Lines of several speakers -> the blocks of each.

Owns the routing: which line belongs to which open stack where ranks are interleaved, and where a
stack ends. Where one begins is seen in `opening`, and what a block means is decided in `classify`.
"""

import re
from collections import deque

from orchestrator.core.detect.opening import begin
from orchestrator.core.detect.sighting import Line, Reading
from orchestrator.core.parse.stack_lines import frame_of
from orchestrator.core.parse.stack_parts import Kind, Offer
from orchestrator.core.parse.traceback import MAX_TEXT_LINES

MAX_OPEN = 512
MAX_OF_ONE = 32
"""Open blocks, of all and of one speaker."""
DEEP_PARTS = 50
"""No program that lives on chains so many exceptions."""
MAX_TWINS = 16
"""Blocks of one speaker that are looked at for a line."""


class Weaver:
    """Takes lines in order and gives back the blocks that ended; bounded in what it holds open."""

    def __init__(self) -> None:
        self.open: list[Reading] = []
        self._of: dict[str, list[Reading]] = {}
        """The open ones of each speaker; both lists have the oldest first."""
        self._recent: deque[Line] = deque(maxlen=4)
        self._shape = ""

    @property
    def idle(self) -> bool:
        """Whether no block is open."""
        return not self.open

    @property
    def deep(self) -> bool:
        """Whether a block is open that goes on and on: its end says what it was."""
        return any(len(one.block.parts) > DEEP_PARTS for one in self.open)

    def feed(self, line: Line) -> tuple[bool, list[Reading]]:
        """Whether the line belongs to a block, and the blocks that it ended."""
        line = self._without_shape(line)
        taken, closed = self._offer(line)
        if not taken and (reading := begin(line, self._recent)) is not None:
            taken = True
            closed += self._make_room(reading.key)
            self.open.append(reading)
            self._of.setdefault(reading.key, []).append(reading)
        if line.text:
            self._recent.append(line)
        return taken, closed

    def _end(self, reading: Reading) -> None:
        self.open.remove(reading)
        mine = self._of[reading.key]
        mine.remove(reading)
        if not mine:
            del self._of[reading.key]

    def _make_room(self, key: str) -> list[Reading]:
        """Ends the oldest block of the speaker, or of all, where there are too many."""
        mine = self._of.get(key, [])
        oldest = mine[:1] if len(mine) >= MAX_OF_ONE else self.open[:1]
        if len(mine) < MAX_OF_ONE and len(self.open) < MAX_OPEN:
            return []
        self._end(oldest[0])
        return oldest

    def _without_shape(self, line: Line) -> Line:
        """The line without a prefix of no known form, once a block has shown that all lines bear it."""
        if self._shape and (found := re.match(self._shape, line.rest + " ")) is not None:
            width = min(line.prefix.width + found.end(), len(line.text))
            return line._replace(prefix=line.prefix._replace(width=width))
        return line

    def recall(self, line: Line) -> None:
        """A line above the next one, which was not read when it went by."""
        if line.text and all(line.number > item.number for item in self._recent):
            self._recent.append(line)

    def settle(self) -> list[Reading]:
        """Ends the blocks that are complete: nothing came for a while."""
        done = [
            item
            for item in self.open
            if item.block.complete or item.block.kind in (Kind.FAULT, Kind.NATIVE)
        ]
        for item in done:
            self._end(item)
        return done

    def finish(self) -> list[Reading]:
        """Ends all blocks: the log is over."""
        done, self.open, self._of = self.open, [], {}
        return done

    def _offer(self, line: Line) -> tuple[bool, list[Reading]]:
        closed: list[Reading] = []
        for reading in self._candidates(line):
            text = _own(reading, line)
            if line.prefix.level and _is_bare(reading):
                reading.block.end_message()
            answer = reading.block.offer(text)
            if answer is Offer.TAKEN:
                if reading.shape and text != line.rest:
                    self._shape = reading.shape
                if reading.block.part.exception and reading.block.part.message[-1:] == [text]:
                    reading.said_at = reading.said_at if _goes_on(reading) else line.number
                reading.last_number = line.last_number
                reading.lines.append(line.text)
                reading.numbers.append(line.number)
                if len(reading.lines) > MAX_TEXT_LINES:
                    # The middle of a recursion says least: above is who called, below what failed.
                    del reading.lines[MAX_TEXT_LINES // 2], reading.numbers[MAX_TEXT_LINES // 2]
                reading.echoed = reading.echoed or bool(line.prefix.level)
                return True, closed
            if answer is Offer.ENDED:
                self._end(reading)
                closed.append(reading)
        return False, closed

    def _candidates(self, line: Line) -> list[Reading]:
        """The open blocks of the line's speaker: one that repeats another first, then the newest."""
        mine = self._of.get(line.prefix.key, [])
        if (
            not mine
            and not line.prefix.key
            and (frame_of(line.text) or line.text.startswith("    "))
        ):
            mine = self.open[-1:]
        if len(mine) < 2:
            return mine[:1]
        mine = sorted(mine, key=_newest_first)[:MAX_TWINS]
        text = line.rest
        read = [item.block.text for item in mine]
        for position in sorted({len(lines) for lines in read}):
            if any(len(lines) > position and lines[position] == text for lines in read):
                behind = next(item for item in mine if len(item.block.text) == position)
                return [behind, *(item for item in mine if item is not behind)]
        if frame_of(text) is not None:  # of a stack without its exception, rather than a message
            mine.sort(key=_has_exception)
        return mine


def _goes_on(reading: Reading) -> bool:
    """Whether the line taken last only continues a message."""
    return len(reading.block.part.message) > 1


def _is_bare(reading: Reading) -> bool:
    """Whether a logger's line cannot be of the block, since none of its own lines bears a level."""
    return not (reading.echoed or reading.first.prefix.level)


def _newest_first(reading: Reading) -> int:
    return -reading.last_number


def _has_exception(reading: Reading) -> bool:
    return reading.block.part.exception is not None


def _own(reading: Reading, line: Line) -> str:
    """The line as the block should read it, without a prefix of the block's own making."""
    text = line.rest
    if reading.shape and (found := re.match(reading.shape, text)):
        return text[found.end() :]
    if reading.shape and text and re.fullmatch(reading.shape, text + " "):
        return ""
    return text
