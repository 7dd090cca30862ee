"""Finds lines in a log of any size: what a search means, and which line is the next that matches.

Pure: blocks of bytes go in with their offsets, offsets of lines come out. A search is a regular
expression, or its words where they are none; small letters match large ones. A line matches as a
terminal shows it. hyperscan names the few lines that may match, at gigabytes a second; those alone
are cleaned and looked at. Lines that are not shown as they are written are always looked at.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from orchestrator.core.parse.terminal import clean, one_line
from orchestrator.core.patterns import Pattern, read_pattern

if TYPE_CHECKING:
    import hyperscan

FIRST_BLOCK_BYTES = 64 * 1024
"""The nearest match is often near; blocks double from here, so that the first answer is quick."""
BLOCK_BYTES = 4 * 1024 * 1024
MAX_LINE_BYTES = 1024 * 1024
"""A line longer than this is searched in pieces."""

Parts = Iterable[tuple[int, bytes]]
"""Bytes and their offsets, in the order of the search; a jump between two is a hole."""

_NOT_AS_WRITTEN = (rb"[\x00-\x09\x0b-\x1f\x7f-\xff][^\n]*$", rb" $", rb"%\|[^\n]*$")
"""Lines with escapes, returns, tabs, other than ASCII, a blank at their end, or a progress bar."""


def shown_text(raw: bytes) -> str:
    """One line as a terminal would show it in the end."""
    return one_line(clean(raw)[-1])


def compiled(words: str) -> Pattern:
    """The pattern of a search; what cannot be searched as one is taken as words."""
    any_case = not any(letter.isupper() for letter in words)
    try:
        return read_pattern(words, any_case=any_case)
    except ValueError:
        return Pattern(re.escape(words), any_case=any_case)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a search has come: a match's line, or only the offset it has reached."""

    offset: int
    found: bool = False


class Search:
    """One search, with what it needs to be quick."""

    def __init__(self, words: str) -> None:
        self._pattern = compiled(words)
        self._database = _database(self._pattern)

    def matches(self, block: bytes, *, backwards: bool = False) -> Iterator[int]:
        """Where the lines of a block that match begin, in it; each is looked for when asked."""
        lines = self._lines(block)
        for begin, end in reversed(lines) if backwards else lines:
            if self._pattern.search(shown_text(block[begin:end])):
                yield begin

    def _lines(self, block: bytes) -> list[tuple[int, int]]:
        """Begin and end of each line that may match."""
        if self._database is None:
            return _all_lines(block)
        ends: list[int] = []
        self._database.scan(block, match_event_handler=_collect, context=ends)
        found: list[tuple[int, int]] = []
        for end in sorted(ends):
            if found and end <= found[-1][1]:
                continue
            begin = block.rfind(b"\n", 0, end - 1) + 1
            close = block.find(b"\n", end - 1)
            found.append((begin, len(block) if close < 0 else close))
        return found


def _all_lines(block: bytes) -> list[tuple[int, int]]:
    found, at = [], 0
    for line in block.removesuffix(b"\n").split(b"\n"):
        found.append((at, at + len(line)))
        at += len(line) + 1
    return found


def _collect(_id: int, _start: int, end: int, _flags: int, found: object) -> None:
    found.append(end)  # type: ignore[attr-defined]  # the list that `_lines` hands over as context


def _database(pattern: Pattern) -> "hyperscan.Database | None":
    """What names the lines that may match; None where it could miss one."""
    import hyperscan  # a client that only wants `compiled` does without

    words = pattern.text
    if not words.isascii() or pattern.search(""):
        return None
    lines = hyperscan.HS_FLAG_MULTILINE
    mine = lines | hyperscan.HS_FLAG_PREFILTER
    if pattern.any_case:
        mine |= hyperscan.HS_FLAG_CASELESS
    expressions = [words.encode(), *_NOT_AS_WRITTEN]
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    try:
        database.compile(
            expressions=expressions,
            ids=list(range(len(expressions))),
            elements=len(expressions),
            flags=[mine, *(lines for _ in _NOT_AS_WRITTEN)],
        )
    except hyperscan.error:
        return None
    return database


def down(search: Search, parts: Parts) -> Iterator[Progress]:
    """The first match, with signs of life on the way; the parts begin with a line."""
    for at, block in _blocks_down(parts):
        for begin in search.matches(block):
            yield Progress(at + begin, found=True)
            return
        yield Progress(at + len(block))


def up(search: Search, parts: Parts) -> Iterator[Progress]:
    """The last match, with signs of life on the way; the parts come from the end, which ends a line."""  # noqa: E501  one sentence
    for at, block in _blocks_up(parts):
        for begin in search.matches(block, backwards=True):
            yield Progress(at + begin, found=True)
            return
        yield Progress(at)


def every(search: Search, parts: Parts) -> Iterator[list[int]]:
    """The lines of each block that match, on the way down; few at a time, many where many are."""
    for at, block in _blocks_down(parts):
        yield [at + begin for begin in search.matches(block)]


def _blocks_down(parts: Parts) -> Iterator[tuple[int, bytes]]:
    """Whole lines and where they begin."""
    rest, at, size = b"", 0, FIRST_BLOCK_BYTES
    for offset, part in parts:
        if rest and offset != at + len(rest):
            yield at, rest  # a hole ends a line
            rest = b""
        at = at if rest else offset
        begin = 0
        while begin < len(part):
            block = rest + part[begin : begin + size]
            begin, size = begin + size, min(size * 2, BLOCK_BYTES)
            cut = block.rfind(b"\n") + 1
            if not cut and len(block) >= MAX_LINE_BYTES:
                cut = len(block)
            if cut:
                yield at, block[:cut]
            at, rest = at + cut, block[cut:]
    if rest:
        yield at, rest


def _blocks_up(parts: Parts) -> Iterator[tuple[int, bytes]]:
    """Whole lines and where they begin, the last ones first."""
    rest, at, size = b"", 0, FIRST_BLOCK_BYTES
    for offset, part in parts:
        if rest and offset + len(part) != at:
            yield at, rest
            rest = b""
        end = len(part)
        while end > 0:
            begin = max(end - size, 0)
            block, at = part[begin:end] + rest, offset + begin
            end, size = begin, min(size * 2, BLOCK_BYTES)
            cut = block.find(b"\n", 0, len(block) - 1) + 1
            if not cut and len(block) < MAX_LINE_BYTES:
                rest = block
                continue
            yield at + cut, block[cut:]
            rest = block[:cut]
    if rest:
        yield at, rest
