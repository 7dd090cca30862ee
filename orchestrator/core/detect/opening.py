"""The line at which a block begins -> the block, with what was said just before it.

Owns how each kind of stack opens, whose it is and whether anyone will care. Which lines belong to
it from then on is weave.py's.
"""

import re
from collections.abc import Sequence

from orchestrator.core.detect.sighting import Line, Reading
from orchestrator.core.parse.other_stacks import open_native
from orchestrator.core.parse.stack_lines import (
    FAULT_FRAME,
    exception_of,
    frame_of,
    going_on,
    header_of,
)
from orchestrator.core.parse.stack_parts import Kind
from orchestrator.core.parse.traceback import Block

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


def begin(line: Line, recent: Sequence[Line]) -> Reading | None:
    """The block that a line begins, if it does; `recent` are the lines above it, the newest last."""
    rest = line.rest
    header = header_of(rest)
    if header is not None:
        return _headed(line, recent, header.start())
    if "terminate called " in rest and open_native(native := Block(Kind.NATIVE), rest):
        return _reading(line, recent, native)
    if "Fatal Python error:" in rest or _FAULT_START.match(rest):
        block = Block(Kind.FAULT, headless=False)
        if "Fatal Python error" in rest or "Timeout (" in rest:
            block.part.message = [rest[_fault_at(rest) :]]
        else:
            block.offer(rest)
        return _reading(line, recent, block)
    if (frame := frame_of(rest)) is not None and rest[:1] in (" ", "F"):
        fault = FAULT_FRAME.match(rest) is not None
        kind = Kind.GROUP if rest.lstrip().startswith("|") else Kind.PYTHON
        block = Block(Kind.FAULT if fault else kind, headless=True)
        block.note = any(_NOTE_STACK.search(item.text) for item in recent)
        block.part.frames.append(frame)
        block.text.append(rest)
        return _reading(line, recent, block)
    if _TABLE_ROW.match(rest):
        return _reading(line, recent, Block.of_table(rest))
    return _loose(line, recent, rest)


def _headed(line: Line, recent: Sequence[Line], column: int) -> Reading:
    rest = line.rest
    kind = Kind.PYTHON
    if "Exception Group" in rest or rest.lstrip().startswith("| "):
        kind = Kind.GROUP
    elif "\u2500" in rest:
        kind = Kind.RICH
    before = rest[:column]
    block = Block(kind)
    reading = _reading(line, recent, block)
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


def _loose(line: Line, recent: Sequence[Line], rest: str) -> Reading | None:
    if recent and "\u2570" in recent[-1].text:
        rest = rest.lstrip()
    found = exception_of(rest, sure=True)
    if found is None or found.type == "Error" or found.type.startswith("nccl"):
        return None
    if going_on(found.message[:80]):
        return None
    block = Block(Kind.LOOSE, headless=True)
    block.begin_at(found, rest)
    return _reading(line, recent, block)


def _reading(line: Line, recent: Sequence[Line], block: Block) -> Reading:
    prefix = line.prefix
    reading = Reading(
        block=block,
        first=line,
        key=prefix.key,
        rank=prefix.rank,
        level=prefix.level,
        last_number=line.last_number,
        before=tuple(item.text for item in recent),
        lines=[line.text],
        numbers=[line.number],
    )
    same = [item for item in recent if item.prefix.key == prefix.key or not item.prefix.key]
    _name_context(reading, list(same)[-2:])
    return reading


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


def _fault_at(text: str) -> int:
    return max(text.find("Fatal Python error"), text.find("Timeout ("), 0)
