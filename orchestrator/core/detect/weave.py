"""Lines of several speakers -> the blocks of each.

Owns the routing: which line belongs to which open stack where ranks are interleaved, and where a
stack begins and ends. What a block means is decided in `classify`.
"""

import re
from collections import deque

from orchestrator.core.detect.sighting import Line, Reading
from orchestrator.core.parse.other_stacks import open_native
from orchestrator.core.parse.stack_lines import (
    FAULT_FRAME,
    exception_of,
    frame_of,
    going_on,
    header_of,
)
from orchestrator.core.parse.stack_parts import Kind, Offer
from orchestrator.core.parse.traceback import MAX_TEXT_LINES, Block

MAX_OPEN = 512
MAX_OF_ONE = 32
DEEP_PARTS = 50
"""No program that lives on chains so many exceptions."""
"""Open blocks, of all and of one speaker."""
MAX_TWINS = 16
"""Blocks of one speaker that are looked at for a line."""
_THREAD = re.compile(r"Exception in thread (?P<name>.{1,120}?)[:^\s]*$")
_CHILD = re.compile(r"^Process (?P<name>[\w:.-]{1,80}(?:-\d+)*):\s*$")
_IGNORED = re.compile(
    r"Exception ignored (?:in|on|while|from)|Error in (?:atexit\.|sys\.(?:excepthook|unraisablehook))"
)
_FUTURE = re.compile(
    r"(?:Task|Future) exception was never retrieved|^Exception in callback |^future: <"
)
_FAULT_START = re.compile(
    r"Timeout \(\d+:\d\d:\d\d(?:\.\d+)?\)!|(?:Current t|T)hread 0x[0-9a-f]+|Stack \(most recent call first\)"
)
_NOTE_STACK = re.compile(
    r"Call stack:|from user code:|User stack trace|Traceback of forward call|Original traceback:"
    r"|created at|Stack Trace|\(Triggered internally"
)
_TROUBLE = re.compile(
    r"fail|error|exception|caught|could ?n[o']t|can(?:no|')t|unable|skip|retr(?:y|ies)|ignor|broke|corrupt"
    r"|invalid|bad\b|drop|lost|not (?:be|found|available)|trace|attempt|fall",
    re.IGNORECASE,
)
_TABLE_ROW = re.compile(
    r"^\s*(?:Failures:|Root Cause \(first observed failure\):|exitcode +: -?\d+ |rank +: \d+ \(local_rank: )"
)


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
        if not taken and (reading := self._start(line)) is not None:
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
                if len(reading.lines) < MAX_TEXT_LINES:
                    reading.lines.append(line.text)
                    reading.numbers.append(line.number)
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

    def _start(self, line: Line) -> Reading | None:
        rest = line.rest
        header = header_of(rest)
        if header is not None:
            return self._headed(line, header.start())
        if "terminate called " in rest and open_native(native := Block(Kind.NATIVE), rest):
            return self._reading(line, native)
        if "Fatal Python error:" in rest or _FAULT_START.match(rest):
            block = Block(Kind.FAULT, headless=False)
            if "Fatal Python error" in rest or "Timeout (" in rest:
                block.part.message = [rest[_fault_at(rest) :]]
            else:
                block.offer(rest)
            return self._reading(line, block)
        if (frame := frame_of(rest)) is not None and rest[:1] in (" ", "F"):
            fault = FAULT_FRAME.match(rest) is not None
            kind = Kind.GROUP if rest.lstrip().startswith("|") else Kind.PYTHON
            block = Block(Kind.FAULT if fault else kind, headless=True)
            block.note = any(_NOTE_STACK.search(item.text) for item in self._recent)
            block.part.frames.append(frame)
            block.text.append(rest)
            return self._reading(line, block)
        if _TABLE_ROW.match(rest):
            return self._reading(line, Block.of_table(rest))
        return self._loose(line, rest)

    def _headed(self, line: Line, column: int) -> Reading:
        rest = line.rest
        kind = Kind.PYTHON
        if "Exception Group" in rest or rest.lstrip().startswith("| "):
            kind = Kind.GROUP
        elif "\u2500" in rest:
            kind = Kind.RICH
        before = rest[:column]
        block = Block(kind)
        reading = self._reading(line, block)
        if kind is Kind.RICH:
            block.boxed = True
            block.indent = len(rest) - len(rest.lstrip())
        if kind is Kind.PYTHON and before:
            block.indent = len(before) - len(before.lstrip())
            if line.prefix.width:
                block.indent = max(0, block.indent - 1)
            if before.strip():
                reading.shape = re.sub(r"\d+", r"\\d+", re.escape(before))
        return reading

    def _loose(self, line: Line, rest: str) -> Reading | None:
        if self._recent and "\u2570" in self._recent[-1].text:
            rest = rest.lstrip()
        found = exception_of(rest, sure=True)
        if found is None or found.type == "Error" or found.type.startswith("nccl"):
            return None
        if going_on(found.message[:80]):
            return None
        block = Block(Kind.LOOSE, headless=True)
        block.begin_at(found, rest)
        return self._reading(line, block)

    def _reading(self, line: Line, block: Block) -> Reading:
        prefix = line.prefix
        reading = Reading(
            block=block,
            first=line,
            key=prefix.key,
            rank=prefix.rank,
            level=prefix.level,
            last_number=line.last_number,
            before=tuple(item.text for item in self._recent),
            lines=[line.text],
            numbers=[line.number],
        )
        same = [
            item for item in self._recent if item.prefix.key == prefix.key or not item.prefix.key
        ]
        _name_context(reading, list(same)[-2:])
        return reading


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


def _name_context(reading: Reading, before: list[Line]) -> None:
    """Reads the lines that announce a stack: whose it is, and whether anyone will care."""
    for line in reversed(before):
        text = line.rest
        if thread := _THREAD.search(text):
            reading.context, reading.thread = "thread", thread["name"].strip(" ^")
        elif child := _CHILD.match(text):
            reading.context, reading.thread = "child", child["name"]
        elif _IGNORED.search(text):
            reading.context = "ignored"
        elif "--- Logging error ---" in text:
            reading.context = "logging"
        elif _FUTURE.search(text):
            reading.context = "future"
        elif line is before[-1] and line.prefix.key == reading.key and _speaks_of_trouble(line):
            reading.level = reading.level or line.prefix.level
            continue
        else:
            continue
        if line.prefix.rank is not None and reading.rank is None:
            reading.rank = line.prefix.rank
        return


def _speaks_of_trouble(line: Line) -> bool:
    """Whether a logger's line may be the one to which the stack below it belongs."""
    if not line.prefix.level or line.prefix.native:
        return False
    level = line.prefix.level
    return level in "EC" or (level == "W" and _TROUBLE.search(line.rest) is not None)


def _own(reading: Reading, line: Line) -> str:
    """The line as the block should read it, without a prefix of the block's own making."""
    text = line.rest
    if reading.shape and (found := re.match(reading.shape, text)):
        return text[found.end() :]
    if reading.shape and text and re.fullmatch(reading.shape, text + " "):
        return ""
    return text


def _fault_at(text: str) -> int:
    return max(text.find("Fatal Python error"), text.find("Timeout ("), 0)
