"""What the daemon tells, without the value of any secret, in whatever form one stands in it.

Owns which values those are, and the places of an answer that they may take stars in. What programs
print is covered before it is stored (reading.py); this is for what else is told: texts of people,
errors of commands, kernel lines, stacks, and values that were not known when something was stored.
"""

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote, urlsplit

from orchestrator.core.model import Inventory
from orchestrator.core.parse.masking import covered, covered_text
from orchestrator.core.parse.secret_forms import MIN_VALUE_CHARS
from orchestrator.core.parse.secret_search import Search, known
from orchestrator.daemon.environment import Environment, wanted_names

LONG_CHARS = 8
"""A shorter value may be a word of ours too: it is covered in sentences, not in a word alone."""


class Cover:
    """Covers with the values of the moment; they are looked up at each use."""

    def __init__(
        self, environment: Environment, inventory: Callable[[], Inventory], *others: str
    ) -> None:
        """`others` are names of variables that the inventory does not mention."""
        self._environment, self._inventory, self._others = environment, inventory, others

    def values(self) -> frozenset[str]:
        """Every value, its words, and the password of an address; but what the inventory calls so.

        A value that is a piece of a host's, a target's or a job's name is no secret.
        """
        inventory = self._inventory()
        wanted = (*wanted_names(inventory), *self._others)
        whole = {value for name in wanted for value in self._environment.every_value(name)}
        parts = {part for value in whole for part in (*value.split(" "), *_passwords(value))}
        names = (*inventory.hosts, *inventory.targets, *inventory.jobs)
        return frozenset(
            one
            for one in whole | parts
            if len(one) >= MIN_VALUE_CHARS and not any(one in name for name in names)
        )

    def search(self) -> Search:
        """The search for them."""
        return known(self.values())

    def text(self, text: str) -> str:
        """A text of letters, covered."""
        return covered_text(self.search(), text)

    def answer(self, body: bytes, *, is_json: bool) -> bytes:
        """An answer as it is sent; of a document it is the texts that are covered, not the form."""
        search = self.search()
        if not search.spans(body):
            return body
        if not is_json:
            return covered(search, body)
        end = b"\n" if body.endswith(b"\n") else b""
        shown = _in_texts(json.loads(body), search)
        return json.dumps(shown, separators=(",", ":")).encode() + end


def _passwords(value: str) -> tuple[str, ...]:
    try:
        found = urlsplit(value).password if "://" in value else None
    except ValueError:
        return ()
    return (found, unquote(found)) if found else ()


def _in_texts(part: Any, search: Search) -> Any:
    match part:
        case dict():
            return {key: _in_texts(value, search) for key, value in part.items()}
        case list():
            return [_in_texts(value, search) for value in part]
        case str() if len(part) >= LONG_CHARS:
            return covered_text(search, part)
    return part
