"""What a stack that is being read consists of, as values; reads nothing itself."""

from dataclasses import dataclass, field
from enum import StrEnum

from orchestrator.core.findings import ExceptionText, Frame

MAX_MESSAGE_LINES = 80
MAX_FRAMES = 1200
"""Of one stack, as of a recursion: beyond that what stands in the middle is let go."""
MAX_PARTS = 1000
"""Of a chain without end, or of threads: beyond that what stands in the middle is let go."""


class Kind(StrEnum):
    """What sort of stack a block is."""

    PYTHON = "python"
    GROUP = "group"
    RICH = "rich"
    FAULT = "fault"
    NATIVE = "native"
    """C++'s last words: `terminate called after throwing ...`."""
    LOOSE = "loose"
    """An exception's line alone, its stack cut off or never printed."""


class Offer(StrEnum):
    """What a block says to a line."""

    TAKEN = "taken"
    PASSED = "passed"
    ENDED = "ended"


@dataclass(slots=True)
class Part:
    """One stack of a block with the exception below it; mutable while the block is read."""

    inner: bool = False
    """Printed inside the message of the part before: the wrapper's content."""
    link: str = ""
    """The sentence that joins it to the part before; empty for the first."""
    thread: str = ""
    frames: list[Frame] = field(default_factory=list)
    exception: ExceptionText | None = None
    message: list[str] = field(default_factory=list)
    """All lines of the message, the first being the exception's own."""
    current: bool = True
    """False for the stacks of other threads in a faulthandler dump."""

    @property
    def said(self) -> str:
        """Exception and message as one text."""
        return "\n".join(self.message)


@dataclass(slots=True, eq=False)
class Stack:
    """A stack that is being read: its parts, and where in it the reading is."""

    kind: Kind
    parts: list[Part] = field(default_factory=lambda: [Part()])
    text: list[str] = field(default_factory=list)
    state: str = "frames"
    """`frames`, `message`, `lingering` behind a message, or `between` two parts of a chain."""
    headless: bool = False
    """Its first line is not in the log."""
    indent: int = 0
    strangers: int = 0
    boxed: bool = False
    """Drawn by rich; behind its box the exception stands as any other does."""
    pending: str = ""
    """A path that rich folded over several lines of its box."""
    blanks: int = 0
    late: int = 0
    """Lines of others since the message ended."""
    long_message: bool = False
    ruled: bool = False
    """The line above is the ruler that parts two exceptions of a group."""
    note: bool = False
    """A stack that only says where something was made; no exception follows."""

    @property
    def part(self) -> Part:
        """The part that is being read."""
        return self.parts[-1]

    def begin(self, part: Part) -> None:
        """Go on in another part: the first ones say why, the last what was raised."""
        self.parts.append(part)
        if len(self.parts) > MAX_PARTS:
            del self.parts[MAX_PARTS // 2]

    def add(self, frame: Frame) -> None:
        """A frame of the part that is being read; either end may be the innermost."""
        frames = self.part.frames
        frames.append(frame)
        if len(frames) > MAX_FRAMES:
            del frames[MAX_FRAMES // 2]

    @property
    def complete(self) -> bool:
        """Whether an exception stands at its end."""
        return self.state in ("message", "lingering") and self.part.exception is not None
