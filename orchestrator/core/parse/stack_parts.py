"""What a stack that is being read consists of, as values; reads nothing itself."""

from dataclasses import dataclass, field
from enum import StrEnum

from orchestrator.core.findings import ExceptionText, Frame


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
