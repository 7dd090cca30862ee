"""Regular expressions that people write, searched in time that grows with the text alone.

Owns the engine (RE2) and the sentences for what it refuses. Python's `re` may try `(a|a)+$` on one
line for years and holds the interpreter meanwhile: it reads the syntax, and patterns of our own.
"""

import re
import warnings
from collections.abc import Iterable, Iterator
from typing import Any, Protocol

_REFUSED = (
    (
        re.compile(r"perl operator: \(\?<?[=!]"),
        "looks ahead or behind, which cannot be done in time that grows with the line alone;"
        " write it without (a rule has `unless`)",
    ),
    (
        re.compile(r"escape sequence: \\[1-9]|perl operator: \(\?P"),
        "refers to an earlier group, which cannot be done in time that grows with the line alone;"
        " write it without",
    ),
    (
        re.compile(r"repetition size|too large"),
        "repeats something more than 1000 times; write * or + instead",
    ),
)
"""What RE2 says, and what that means for who wrote it."""
_PYTHON_ONLY = re.compile(
    r"(?s)(?P<anchor>\\[AZ])|\\u(?P<letter>[0-9a-fA-F]{4})|\\.|(?P<at_most>\{,(?=\d+\}))"
    r"|\[\^?\]?(?:\\[^u]|[^\]\\])*\]"
)
"""What RE2 and hyperscan write otherwise; escapes and sets are passed over."""


class Match(Protocol):
    """What was found: its groups by number or name, and where they are."""

    def __getitem__(self, group: int | str, /) -> Any:
        """The text of a group; IndexError where there is none."""

    def start(self) -> int:
        """Where it begins in the text."""

    def end(self) -> int:
        """Where it ends."""


class Searcher(Protocol):
    """A pattern of either engine."""

    def search(self, text: str, /) -> Match | None:
        """The first match anywhere in the text."""


class Pattern:
    """An expression as RE2 has it: its `\\w`, `\\d`, `\\s` and `\\b` are those of ASCII."""

    def __init__(self, text: str, *, any_case: bool = False) -> None:
        """ValueError, which says what the expression does, where it cannot be searched."""
        import re2  # most commands search nothing

        self.text = text
        self.any_case = any_case
        options = re2.Options()
        options.log_errors = False
        options.case_sensitive = not any_case
        try:
            self._engine = re2.compile(_storable(text), options)
        except re2.error as error:
            said = error.args[0].decode("utf-8", "replace")
            other = f"is not for RE2, which searches it ({said})"
            reason = next((words for form, words in _REFUSED if form.search(said)), other)
            raise ValueError(reason) from error

    def search(self, text: str, /) -> Match | None:
        """The first match anywhere in the text."""
        return next(self.finditer(text), None)

    def finditer(self, text: str, /) -> Iterator[Match]:
        """All matches that do not overlap, from left to right."""
        found: Iterator[Match] = self._engine.finditer(_storable(text))
        return found

    @property
    def names(self) -> frozenset[str]:
        """Names of its groups."""
        return frozenset(self._engine.groupindex)


def read_pattern(text: str, *, any_case: bool = False) -> Pattern:
    """An expression in Python's syntax; ValueError, which says what it is or does, for another."""
    try:
        with warnings.catch_warnings():
            # Of what another Python may read otherwise one day: it is RE2 that searches.
            warnings.simplefilter("ignore", FutureWarning)
            re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"is no regular expression: {error}") from error
    return Pattern(_PYTHON_ONLY.sub(_for_engine, text), any_case=any_case)


def any_of(patterns: Iterable[str], form: str = "%s") -> Pattern:
    """One searcher of several that were read."""
    return Pattern(form % "|".join(f"(?:{pattern})" for pattern in patterns))


def _for_engine(found: re.Match[str]) -> str:
    if found["anchor"]:
        return "^" if found["anchor"] == r"\A" else "$"  # hyperscan's texts have many lines
    if found["letter"]:
        return re.escape(chr(int(found["letter"], 16)))
    return "{0," if found["at_most"] else found[0]


def _storable(text: str) -> str:
    """Half a surrogate pair, as an argument that is no UTF-8 holds, is no text."""
    if text.isascii():
        return text
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
