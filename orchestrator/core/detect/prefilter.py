"""Which lines of a chunk deserve a look, at the speed of a vector scanner.

Owns the one multi-pattern database. A line that it does not name costs no Python at all; one that
it names may still be nothing.
"""

from collections.abc import Sequence

import hyperscan

STRUCTURE = (
    r"Traceback \(most",
    r"Traceback .{0,24}\(m",
    r"\(most recent call (?:last|first)\)",
    r'File .{0,12}"[^"\n]{1,300}"?.{0,12}, line ',
    r"^ *File \"[^\"\n]{1,400}$",
    r"(?:Error|Exception|Interrupt|SystemExit|Unsupported)(?:\x1b\[[0-9;]*m)*(?::|\s*$)",
    r"Exception in thread ",
    r"Exception ignored",
    r"Fatal Python error",
    r"Root Cause \(first observed",
    r"[Rr]estarting|[Rr]estarted|[Rr]esum(?:ed|ing)|[Aa]ttempt \d+",
    r"was never retrieved",
)


class Prefilter:
    """A compiled scanner; not thread safe, and one for each engine."""

    def __init__(self, patterns: Sequence[str]) -> None:
        expressions = [pattern.encode() for pattern in (*STRUCTURE, *patterns)]
        flags = hyperscan.HS_FLAG_MULTILINE | hyperscan.HS_FLAG_PREFILTER
        self._database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
        self._database.compile(
            expressions=expressions,
            ids=list(range(len(expressions))),
            elements=len(expressions),
            flags=[flags] * len(expressions),
        )

    def ends(self, chunk: bytes) -> list[int]:
        """Where matches end in the chunk, in the order found; offsets may repeat."""
        found: list[int] = []
        self._database.scan(chunk, match_event_handler=_collect, context=found)
        return found


def _collect(_id: int, _start: int, end: int, _flags: int, found: object) -> None:
    found.append(end)  # type: ignore[attr-defined]  # the list that `ends` hands over as context
