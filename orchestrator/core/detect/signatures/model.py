"""What a signature is: a known failure as data.

Owns the shape alone; the known ones stand in the modules beside it, a user's own in the inventory.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from orchestrator.core.findings import Role
from orchestrator.core.model import Severity
from orchestrator.core.patterns import Searcher


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """What a user's rule expects of the log over time; read by the watch on a live run."""

    start_within_s: float | None = None
    """The first match must come this soon after the start."""
    every_s: float | None = None
    """Each next match this soon after the one before."""
    until: str | None = None
    """Pattern of the line after which nothing more is expected."""
    group: str = "value"
    operator: str = "gteq"
    """`gt gteq lt lteq eq`: `group`'s number compared so with `value` is bad."""
    value: float | None = None
    points: int = 1
    """How many numbers in a row must be bad."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """A known failure: how it is recognised, what it means, what to do next.

    Patterns are regular expressions, searched in text whose lines are joined by newlines.
    A block (a stack with its exception) is of this signature where its exception's type matches
    `types`, or its exception's text matches one of `says`; `frames` further asks for a frame.
    A line of its own is where `lines` matches and `unless` does not.
    """

    id: str
    title: str
    cause: str
    """Two sentences."""
    next_steps: tuple[str, ...]
    severity: Severity = Severity.CRITICAL
    role: Role = Role.ROOT
    transient: bool | None = False
    family: str | None = None
    references: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    """Matched against the end of an exception's dotted type."""
    says: tuple[str, ...] = ()
    """Searched in `Type: message`, all its lines."""
    frames: tuple[str, ...] = ()
    """Where given, one of these must be found in `file:function` of a frame of the same stack."""
    lines: tuple[str, ...] = ()
    """Searched in a line outside of every block."""
    rests: tuple[str, ...] = ()
    """Searched like `lines`: parts of its message, which stand alone only where the log was cut."""
    whole_lines: bool = False
    """`lines` are searched in lines as they are, times and levels in front of them included."""
    unless: tuple[str, ...] = ()
    """Text that makes a match void, as advice does."""
    ends: str | None = None
    """What a line of it ends for sure: `process`, `thread` or `rank`."""
    expectation: Expectation | None = None
    compiled: Mapping[str, Searcher | None] = field(default_factory=dict, compare=False, repr=False)

    def matcher(self, name: str) -> Searcher | None:
        """The patterns of one field as a single expression; None where there are none."""
        return self.compiled.get(name)


def _join(patterns: tuple[str, ...], form: str) -> Searcher:
    return re.compile(form % "|".join(f"(?:{pattern})" for pattern in patterns))


def signature(
    join: Callable[[tuple[str, ...], str], Searcher] = _join, **fields: object
) -> Signature:
    """A signature with its patterns compiled; `join` makes one searcher of several patterns."""
    made = Signature(**fields)  # type: ignore[arg-type]  # the caller's literals are checked by tests
    searched = {
        "types": (made.types, r"(?:^|\.)(?:%s)$"),
        "says": (made.says, "%s"),
        "frames": (made.frames, "%s"),
        "lines": ((*made.lines, *made.rests), "%s"),
        "rests": (made.rests, "%s"),
        "unless": (made.unless, "%s"),
    }
    joined = {
        name: join(patterns, form) if patterns else None
        for name, (patterns, form) in searched.items()
    }
    made.compiled.update(joined)  # type: ignore[attr-defined]  # the dict made two lines above
    return made
