"""Where secrets' values stand in bytes, in every form that they are known in, and where one begins.

Owns the one searcher of all forms of all values. Text without a secret costs a pass of RE2 for the
beginnings of forms, whatever their number; only what follows such a beginning is read in Python.
"""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

from orchestrator.core.parse.secret_forms import Places, between, forms, pattern, wraps

TOLD_BY = 8
"""So many places of a form are looked for in all of the text."""
BEGUN_BY = 4
"""So many of them at its end are covered before the rest is seen; fewer show nothing."""
MOST_OPEN_BYTES = 1 << 16
"""What a form may take up, with all that stands between; also what is kept of a text's end."""
LEAST_KEPT_BYTES = 256
_SPREAD = 4
"""How much longer escapes between its places may make a form."""
_TORN_ESCAPE = (
    rb"(?:\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b\r\n]*\x1b?)?"
    rb"|\\(?:x1?|03?|u0{0,2}|u001[bB]?(?:\[[0-?]*[ -/]*)?|(?:x1[bB]|033)(?:\[[0-?]*[ -/]*)?)?)?"
)
_TORN = re.compile(_TORN_ESCAPE + rb"\Z")
_TORN_WRAP = re.compile(
    rb"[ \t]*(?:\||\xe2(?:\x94[\x82\x83]?)?)?[ \t]*(?:\[[a-z]*\d*\]?|" + _TORN_ESCAPE + rb")\Z"
)
"""The beginning of what may stand between two places, cut off by the end of the text."""
_TORN_BYTES = 256
_SCHEME = re.compile(rb"[a-z][a-z0-9+.-]{0,30}://")


class Span(NamedTuple):
    """Where a value stands; up to the end of the text where its rest is not there yet."""

    start: int
    end: int


class _Form(NamedTuple):
    places: Places
    between: re.Pattern[bytes]
    torn: re.Pattern[bytes]
    begun_by: int
    """So many places at a text's end are covered before the rest is seen."""


class Search:
    """All values of a moment; made once for as long as they stay the same."""

    def __init__(self, values: frozenset[str]) -> None:
        import re2  # most commands search nothing

        found = dict.fromkeys(form for value in sorted(values) for form in forms(value))
        self._forms: dict[int, list[_Form]] = {}
        """By what they may begin with."""
        for places in found:
            torn = _TORN_WRAP if wraps(places) else _TORN
            form = _Form(places, re.compile(between(places)), torn, _begun_by(places))
            for letter in {one[0] for one in places[0]}:
                self._forms.setdefault(letter, []).append(form)
        self.reach = min(MOST_OPEN_BYTES, max(map(_reach, found), default=0))
        """No form is longer in a text that was not made to hide it."""
        options = re2.Options()
        options.encoding = re2.Options.Encoding.LATIN1
        options.max_mem = 256 << 20
        self._told, self._begun = (
            re2.compile(b"|".join({pattern(one[:count]): None for one in found}), options)
            for count in (TOLD_BY, BEGUN_BY)
        )

    def __bool__(self) -> bool:
        return bool(self._forms)

    def spans(self, text: bytes) -> list[Span]:
        """The values in a text; they may overlap."""
        return list(self._spans(text)) if self._forms else []

    def begun(self, text: bytes, begin: int) -> Span | None:
        """What at the text's end may become a value, the first from `begin` on."""
        for start in self._starts(self._begun, text, begin):
            if any(_walk(one, text, start)[1] for one in self._forms[text[start]]):
                return Span(start, len(text))
        return None

    def _spans(self, text: bytes) -> Iterator[Span]:
        for start in self._starts(self._told, text, 0):
            walks = (_walk(one, text, start) for one in self._forms[text[start]])
            if ends := [end for end, _ in walks if end is not None]:
                yield Span(start, max(ends))

    @staticmethod
    def _starts(engine: "re.Pattern[bytes]", text: bytes, begin: int) -> Iterator[int]:
        found = engine.search(text, begin)
        while found is not None:
            yield found.start()
            found = engine.search(text, found.start() + 1)


@lru_cache(maxsize=64)
def search_of(values: frozenset[str]) -> Search:
    """The search for these values."""
    return Search(values)


def known(values: Iterable[str]) -> Search:
    """The search for these values, made once."""
    return search_of(frozenset(values))


def _begun_by(places: Places) -> int:
    """A URL's scheme is anybody's word: it begins no value by itself."""
    scheme = _SCHEME.match(b"".join(place[0] for place in places))
    return BEGUN_BY + (scheme.end() if scheme else 0)


def _reach(places: Places) -> int:
    return max(LEAST_KEPT_BYTES, _SPREAD * sum(max(map(len, place)) for place in places))


def _walk(form: _Form, text: bytes, start: int) -> tuple[int | None, bool]:
    """Where a form that begins here ends, and whether it may go on behind the end of the text."""
    at, is_open = {start}, False
    for number, place in enumerate(form.places):
        spots = set(at)
        for spot in at if number else ():
            gap = form.between.match(text, spot)
            spots.add(gap.end() if gap else spot)
        if number >= form.begun_by and not is_open:
            is_open = any(_is_torn(form, place, text, spot) for spot in spots)
        at = {
            spot + len(one)
            for spot in spots
            if text.startswith(place, spot)
            for one in place
            if text.startswith(one, spot)
        }
        if not at:
            return None, is_open
    return max(at), is_open


def _is_torn(form: _Form, place: tuple[bytes, ...], text: bytes, spot: int) -> bool:
    rest = text[spot : spot + _TORN_BYTES]
    if spot + len(rest) < len(text):
        return False
    return any(one.startswith(rest) for one in place) or form.torn.match(rest) is not None
