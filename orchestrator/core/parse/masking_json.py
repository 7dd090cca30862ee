"""Lines of JSON with stars where secrets' values stand, of the same length and JSON still.

Owns what may take stars: the inside of a text, by whole escapes and whole letters, and a number or
a word as a whole, which becomes a text. Must not: search; masking.py says where the values are.
"""

import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

from orchestrator.core.parse.secret_search import Span

_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[^\s"{}\[\]:,]+')
_LETTER = re.compile(rb"\\u[0-9a-fA-F]{4}|\\.|[\xc0-\xff][\x80-\xbf]+")
"""One letter of several bytes, of which none may stay behind alone."""
_TAKEN = b"\1"
_ALL_TAKEN = re.compile(_TAKEN + rb"+")


def covered_lines(text: bytes, spans: Sequence[Span], plain: bytes) -> bytes:
    """The lines of `text`, covered; `plain` is `text` as it is covered where it is no JSON."""
    shown = bytearray(plain)
    for begin, end, met in _lines(text, spans):
        line = text[begin:end]
        if _is_json(line):
            shown[begin:end] = _covered(line, met)
    return bytes(shown)


def _lines(text: bytes, spans: Sequence[Span]) -> Iterator[tuple[int, int, list[Span]]]:
    """Begin and end of each line that a value has a part in, and these values, from its begin."""
    begins = [0, *(found.end() for found in re.finditer(rb"\n", text))]
    met: dict[int, list[Span]] = {}
    for one in spans:
        for number in range(bisect_right(begins, one.start) - 1, bisect_left(begins, one.end)):
            begin = begins[number]
            met.setdefault(number, []).append(Span(one.start - begin, one.end - begin))
    for number, found in met.items():
        end = begins[number + 1] if number + 1 < len(begins) else len(text)
        yield begins[number], end, found


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _covered(line: bytes, spans: Sequence[Span]) -> bytes:
    """A pass over the line, however many values stand in it: a run may print one without end."""
    taken, shown = bytearray(len(line)), bytearray(line)
    for one in spans:
        start, stop = max(one.start, 0), min(one.end, len(line))
        taken[start:stop] = _TAKEN * (stop - start)
    for token in _TOKEN.finditer(line):
        begin, end = token.span()
        if taken.find(_TAKEN, begin, end) < 0:
            continue
        if line[begin : begin + 1] == b'"':
            _cover_within(line, begin + 1, end - 1, taken, shown)
        elif end - begin == 1:
            shown[begin:end] = b"0"
        else:
            shown[begin:end] = b'"' + b"*" * (end - begin - 2) + b'"'
    return bytes(shown)


def _cover_within(line: bytes, begin: int, end: int, taken: bytearray, shown: bytearray) -> None:
    """Cover what is taken of a text, and the rest of letters of which half is taken."""
    for letter in _LETTER.finditer(line, begin, end):
        start, stop = letter.span()
        if taken.find(_TAKEN, start, stop) >= 0:
            taken[start:stop] = _TAKEN * (stop - start)
    for found in _ALL_TAKEN.finditer(taken, begin, end):
        start, stop = found.span()
        shown[start:stop] = b"*" * (stop - start)
