"""What the reading of a log hands to the verdict: a closed block or a telling line, with its place.

Owns the values between the weaver and the verdict; decides nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from orchestrator.core.findings import Finding, Frame
from orchestrator.core.parse.terminal import Prefix
from orchestrator.core.parse.traceback import Block


class Line(NamedTuple):
    """One line of the log as it was read."""

    number: int
    offset: int
    text: str
    """Cleaned of escapes."""
    prefix: Prefix
    end: int = 0
    """Of the last line that a pane made of it; 0 where it was not cut."""

    @property
    def last_number(self) -> int:
        """The number of its last line."""
        return self.end or self.number

    @property
    def rest(self) -> str:
        """The text behind rank tags, times and levels."""
        return self.text[self.prefix.width :]


@dataclass(slots=True, eq=False)
class Reading:
    """A block with the place where it stood and what was said just before it."""

    block: Block
    first: Line
    key: str
    """Who spoke; empty where nothing said so."""
    rank: int | None
    level: str
    """Of the logger that wrote it, where one did."""
    context: str = ""
    """`thread`, `child`, `ignored`, `logging`, `future`, or empty."""
    thread: str | None = None
    last_number: int = 0
    before: tuple[str, ...] = ()
    lines: list[str] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    """Of the lines, in the log."""
    said_at: int = 0
    """Number of the line that names its newest exception; 0 before there is one."""
    echoed: bool = False
    """Later lines carry a log level too: somebody passes on what the program printed."""
    shape: str = ""
    """A prefix of no known form that stands on each of its lines, digits as `\\d+`."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """A finding with what the verdict weighs: how it was printed and by whom."""

    finding: Finding
    key: str = ""
    context: str = ""
    level: str = ""
    quoted: bool = False
    """Inside of text that is data: a sample, a prompt, an old log."""
    caught: bool = False
    """The lines beside it say that it was handled."""
    block: bool = False
    """From a stack; else from a line of its own."""
    echo: str = ""
    """The level by which a logger passed on all of its lines, as it does with all that is printed."""
    exit_code: int | None = None
    """From a launcher's table: how the rank named in it ended."""
    before: tuple[str, ...] = ()
    """The lines just above a block."""
    frames_at: Mapping[Frame, int] = field(default_factory=dict, compare=False)
    """Its innermost frames, each with the number of the first line that names it."""
    said_at: int = 0
    place_at: int = 0
    """Numbers of the lines that name a block's exception, and its innermost own frame; or 0."""


class Spoken(NamedTuple):
    """An ordinary line near a finding or at the log's end."""

    number: int
    key: str
    level: str
    text: str
