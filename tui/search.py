"""Finds places in a log that is too large to hold, range by range; pure between two ranges.

It owns what a search means (a regular expression, or its words where they are none; small letters
match large ones) and how a range's bytes become offsets of lines that match.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tui.loglines import shown_text

RANGE_BYTES = 4 * 1024 * 1024
"""What is asked for at a time; the daemon gives 8 MiB at most."""
MAX_CARRY_BYTES = 1024 * 1024
"""A line longer than this is searched in pieces."""

_SPECIAL = re.compile(r"[\\.^$*+?{}\[\]|()]")

ReadRange = Callable[[int, int], bytes]
"""(offset, size) -> bytes: fewer where it pleases the daemon, none at the end."""


def compiled(words: str) -> re.Pattern[str]:
    """The pattern of a search."""
    flags = 0 if any(letter.isupper() for letter in words) else re.IGNORECASE
    try:
        return re.compile(words, flags)
    except re.error:
        return re.compile(re.escape(words), flags)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a search has come: a match's line, or only the offset it has reached."""

    offset: int
    found: bool = False


def matches(pattern: re.Pattern[str], content: bytes, offset: int) -> list[int]:
    """Offsets of the lines of whole lines that match, as they are shown."""
    if not _may_match(pattern, content):
        return []
    found, at = [], offset
    for raw in content.split(b"\n"):
        if pattern.search(shown_text(raw)):
            found.append(at)
        at += len(raw) + 1
    return found


def _may_match(pattern: re.Pattern[str], content: bytes) -> bool:
    """Whether a line may match: a look at the raw bytes, which is a hundred times quicker.

    False only where the bytes are shown as they are, so that the look is as good as the search.
    """
    words = pattern.pattern
    if not (words.isascii() and content.isascii()) or any(mark in content for mark in b"\x1b\r\t"):
        return True
    ignores_case = bool(pattern.flags & re.IGNORECASE)
    if not _SPECIAL.search(words):
        whole = content.lower() if ignores_case else content
        return (words.lower() if ignores_case else words).encode() in whole
    flags = re.MULTILINE | (re.IGNORECASE if ignores_case else 0)
    return re.search(words.encode(), content, flags) is not None


def down(pattern: re.Pattern[str], read: ReadRange, start: int) -> Iterator[Progress]:
    """The first match at or behind `start`, with signs of life on the way."""
    carry, at = b"", start
    while content := read(at + len(carry), RANGE_BYTES):
        whole = carry + content
        cut = whole.rfind(b"\n") + 1
        if not cut and len(whole) < MAX_CARRY_BYTES:
            carry = whole
            continue
        cut = cut or len(whole)
        if found := matches(pattern, whole[:cut].removesuffix(b"\n"), at):
            yield Progress(found[0], found=True)
            return
        at, carry = at + cut, whole[cut:]
        yield Progress(at)
    if carry and (found := matches(pattern, carry, at)):
        yield Progress(found[0], found=True)


def up(pattern: re.Pattern[str], read: ReadRange, start: int) -> Iterator[Progress]:
    """The last match before `start`, which begins a line, with signs of life on the way."""
    end, carry = start, b""
    while end > 0:
        begin = max(end - RANGE_BYTES, 0)
        whole = _all_of(read, begin, end) + carry
        cut = whole.find(b"\n") + 1 if begin else 0
        if begin and not cut and len(whole) < MAX_CARRY_BYTES:
            end, carry = begin, whole
            continue
        if found := matches(pattern, whole[cut:].removesuffix(b"\n"), begin + cut):
            yield Progress(found[-1], found=True)
            return
        end, carry = begin, whole[:cut]
        yield Progress(begin)


def _all_of(read: ReadRange, begin: int, end: int) -> bytes:
    """The bytes from begin to end, in as many reads as it takes."""
    whole = b""
    while begin + len(whole) < end:
        content = read(begin + len(whole), end - begin - len(whole))
        if not content:
            break
        whole += content
    return whole
