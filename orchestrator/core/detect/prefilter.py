"""Which lines of a chunk deserve a look, at the speed of a vector scanner.

Owns the one multi-pattern database. A line that it does not name costs no Python at all; one that
it names may still be nothing.
"""

import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

import hyperscan

STRUCTURE = (
    r"Traceback \(most",
    r"Traceback .{0,24}\(m",
    r"\(most recent call (?:last|first)\)",
    r'File .{0,12}"[^"\n]+".{0,12}, ',
    r" File \"[^\"\n]+$",
    r"(?:Error|Exception|Interrupt|SystemExit|Unsupported)(?:\x1b\[[0-9;]*m)*(?::|\s*$)",
    r"Exception in thread ",
    r"Exception ignored",
    r"Fatal Python error",
    r"terminate called ",
    r"Root Cause \(first observed",
    r"Failures:$",
    r"exitcode +: -?\d+ \(pid",
    r"rank +: \d+ \(local_rank",
    r"[Rr]estarting|[Rr]estarted|[Rr]esum(?:ed|ing)",
    r"was never retrieved",
    r'"exc_type"',
)
"""What begins a block, whatever it says."""
LOUD = ("Exception in thread ",)
"""Looked for, beside the signatures' own plain patterns, in what is not read line by line."""
FEW_TIMES = 3
_BOUNDED = re.compile(r"(\.|\\[SWDswd])\{(?:0?(?P<any>,)|[1-9]\d*,)\d+\}\??")


@lru_cache(maxsize=8)
def _compiled(patterns: tuple[str, ...], flag: int = 0) -> hyperscan.Database:
    """The database of these patterns; half a second for a few hundred, hence kept."""
    # A bounded gap costs the compiler a state for each of its bytes; an unbounded one costs none
    # and only names more lines: `.{0,80}` is `.*`, and `\\S{1,80}` is `\\S+`.
    # A pattern's beginning of a line is the beginning behind a prefix, which is not known here.
    expressions = [_BOUNDED.sub(_unbounded, item).removeprefix("^").encode() for item in patterns]
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    flags = hyperscan.HS_FLAG_MULTILINE | hyperscan.HS_FLAG_PREFILTER | flag
    database.compile(
        expressions=expressions,
        ids=list(range(len(expressions))),
        elements=len(expressions),
        flags=[flags] * len(expressions),
    )
    return database


def _unbounded(found: re.Match[str]) -> str:
    return found[1] + ("*" if found["any"] else "+")


class Prefilter:
    """A scanner over a shared database with a working memory of its own."""

    def __init__(self, patterns: tuple[str, ...]) -> None:
        self._database = _compiled((*STRUCTURE, *patterns))
        self._scratch = hyperscan.Scratch(self._database)

    def ends(self, chunk: bytes) -> list[int]:
        """Where matches end in the chunk, in the order found; offsets may repeat."""
        found: list[int] = []
        self._database.scan(
            chunk, match_event_handler=_collect, context=found, scratch=self._scratch
        )
        return found


class Suspects:
    """Which of several sets of patterns may match a short text; `re` decides among those."""

    def __init__(self, sets: Sequence[tuple[str, ...]], *, of_lines: bool = False) -> None:
        """`of_lines` takes the database in which a prefilter of the same patterns looks."""
        first = len(STRUCTURE) if of_lines else 0
        owners = (index for index, patterns in enumerate(sets) for _ in patterns)
        self._owners = dict(enumerate(owners, start=first))
        patterns = tuple(pattern for patterns in sets for pattern in patterns)
        if of_lines:
            self._database = _compiled((*STRUCTURE, *patterns))
        else:
            self._database = _compiled(patterns, hyperscan.HS_FLAG_SINGLEMATCH)
        self._scratch = hyperscan.Scratch(self._database)

    def of(self, text: str) -> list[int]:
        """The sets' positions, in their order."""
        found: list[tuple[int, int]] = []
        self._database.scan(
            text.encode("utf-8", "replace"),
            match_event_handler=_collect_ids,
            context=found,
            scratch=self._scratch,
        )
        if not found:
            return []
        return sorted({self._owners[item] for item, _ in found if item in self._owners})


class Rarities:
    """Finds what was seldom seen before: one place for each pattern in a piece that is not read."""

    def __init__(self, patterns: tuple[str, ...]) -> None:
        self._patterns = patterns
        self._seen: Counter[int] = Counter()

    def ends(self, chunk: memoryview) -> list[int]:
        """Where the first match of each pattern ends that was not yet found in a few chunks."""
        database = _compiled((*LOUD, *self._patterns), hyperscan.HS_FLAG_SINGLEMATCH)
        found: list[tuple[int, int]] = []
        database.scan(chunk, match_event_handler=_collect_ids, context=found)  # type: ignore[type-var]  # any buffer will do
        rare = [(item, end) for item, end in found if self._seen[item] < FEW_TIMES]
        self._seen.update(item for item, _ in found)
        return sorted(end for _, end in rare)


def _collect_ids(number: int, _start: int, end: int, _flags: int, found: object) -> None:
    found.append((number, end))  # type: ignore[attr-defined]  # as below


def _collect(_id: int, _start: int, end: int, _flags: int, found: object) -> None:
    found.append(end)  # type: ignore[attr-defined]  # the list that `ends` hands over as context
