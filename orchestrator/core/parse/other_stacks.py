"""Stacks that are no plain tracebacks: rich's boxes, C++'s last words, faulthandler's dumps.

Owns how each of them goes on, line by line. Plain tracebacks are `traceback`'s.
"""

from orchestrator.core.findings import ExceptionText, Frame
from orchestrator.core.parse.stack_lines import (
    FAULT_NOTE,
    FAULT_THREAD,
    LINKED,
    RICH_FRAME,
    TERMINATE,
    WHAT,
    frame_of,
    looks_like_path,
)
from orchestrator.core.parse.stack_parts import MAX_MESSAGE_LINES, Kind, Offer, Part, Stack


def offer_rich(stack: Stack, text: str) -> Offer:
    """Whether the line is in rich's box; behind the box the stack is a plain one."""
    if "\u2570" in text:
        if "\u2502" in text:
            return Offer.TAKEN
        stack.pending = ""
        stack.kind = Kind.PYTHON
        return Offer.TAKEN
    bare = text.strip()
    if not bare.startswith("\u2502"):
        return Offer.PASSED if bare else Offer.TAKEN
    inside = bare.strip("\u2502").strip()
    gap = " " if stack.pending and inside.startswith("in ") else ""
    whole = f"{stack.pending}{gap}{inside}"
    if (found := RICH_FRAME.match(whole)) and looks_like_path(found["file"]):
        stack.add(
            Frame(file=found["file"], line=int(found["line"]), function=found["function"].strip())
        )
        stack.pending = ""
    elif looks_like_path(whole) and " " not in whole and len(whole) < 1000:
        stack.pending = whole
    else:
        stack.pending = ""
    return Offer.TAKEN


def open_native(stack: Stack, text: str) -> bool:
    """Whether the line is C++'s report of an uncaught exception; begins the block."""
    found = TERMINATE.search(text)
    if found is None:
        return False
    stack.part.message = [text[found.start() :]]
    stack.text.append(text)
    if found["type"]:
        stack.part.exception = ExceptionText(type=found["type"], message="")
    return True


def offer_native(stack: Stack, text: str) -> Offer:
    """Whether the line goes on with C++'s report."""
    bare = text.strip()
    if (what := WHAT.match(text)) is not None:
        if stack.part.exception is not None:
            stack.part.exception = ExceptionText(type=stack.part.exception.type, message=what[1])
        if len(stack.part.message) < MAX_MESSAGE_LINES:
            stack.part.message.append(what[1])
        return Offer.TAKEN
    if not bare or LINKED.match(bare) or bare.startswith("#"):
        if bare and len(stack.part.message) < MAX_MESSAGE_LINES and not bare.startswith("frame #"):
            stack.part.message.append(bare)
        return Offer.TAKEN
    return Offer.ENDED


def offer_fault(stack: Stack, text: str) -> Offer:
    """Whether the line is in a dump: of one thread, or of all."""
    if (thread := FAULT_THREAD.match(text)) is not None:
        current = thread["current"] is not None
        if stack.part.frames or stack.part.thread:
            stack.begin(Part())
        stack.part.thread, stack.part.current = thread["name"] or "", current
        return Offer.TAKEN
    if (frame := frame_of(text)) is not None:
        stack.add(frame)
        return Offer.TAKEN
    if not text.strip() or FAULT_NOTE.match(text):
        return Offer.TAKEN
    return Offer.ENDED if stack.part.frames else Offer.PASSED
