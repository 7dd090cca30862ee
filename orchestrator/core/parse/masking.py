"""Bytes of a run's output -> the same number of bytes, its secrets' values covered by stars.

Owns values that are cut between two chunks. Offsets stay what they are on the target, and lines
stay lines, those of JSON JSON.
"""

import re
from collections.abc import Iterable

from orchestrator.core.parse.masking_json import covered_lines
from orchestrator.core.parse.secret_search import (
    LEAST_KEPT_BYTES,
    MOST_OPEN_BYTES,
    Search,
    Span,
    known,
)

_COVERABLE = re.compile(rb"[^\r\n]")


class Mask:
    """Covers the values in chunks of one stream, in their order."""

    def __init__(self, values: Iterable[str], *, of_json: bool = False) -> None:
        """`of_json` where each chunk is whole lines, of which most are JSON."""
        self._search, self._of_json = known(values), of_json
        self._end = 0
        self._before = b""
        """What came last, uncovered: a value may have begun in it."""
        self._is_open = False

    def cover(self, offset: int, chunk: bytes) -> bytes:
        """The chunk that begins at `offset`, covered."""
        if not self._search or not chunk:
            return chunk
        before = self._before if offset == self._end else b""
        text = before + chunk
        spans = self._search.spans(text)
        reach = len(text) if self._is_open and before else self._search.reach
        begun = self._search.begun(text, max(0, len(text) - reach))
        self._is_open = begun is not None
        kept = min(begun.start if begun else len(text), max(0, len(text) - LEAST_KEPT_BYTES))
        self._before = text[max(kept, len(text) - MOST_OPEN_BYTES) :]
        self._end = offset + len(chunk)
        found = [*spans, begun] if begun else spans
        shown = _covered(text, found)
        if self._of_json and found:
            shown = covered_lines(text, found, shown)
        return shown[len(before) :]


def covered(search: Search, text: bytes) -> bytes:
    """A whole text with stars where the values stand."""
    return _covered(text, search.spans(text))


def covered_text(search: Search, text: str) -> str:
    """The same of letters; one that takes several bytes leaves several stars."""
    raw = text.encode("utf-8", "surrogatepass")
    spans = search.spans(raw)
    return as_text(_covered(raw, spans)) if spans else text


def as_text(raw: bytes) -> str:
    """What was covered as letters again; a value of odd bytes may have covered half of one."""
    try:
        return raw.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return raw.decode("utf-8", "replace")


def _covered(text: bytes, spans: list[Span]) -> bytes:
    if not spans:
        return text
    shown = bytearray(text)
    for start, end in spans:
        shown[start:end] = _COVERABLE.sub(b"*", text[start:end])
    return bytes(shown)
