"""What older releases hold of a new one, so that it need not be sent.

Owns the search, and how far it goes. Stdlib only and Python 3.10: shipped inside the probe.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from . import listing as listings
from .freshness import still
from .listing import Held, Known, Listing, inside

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from . import manifest as wire

    Look = Callable[[Held, bytes | None], frozenset[str]]

_WORTH_A_SEARCH_BYTES = 1024 * 1024
"""What is less is sent sooner than it is found in older releases."""


class Stock:
    """The files of older releases: of one that is close at hand, and of others when it is worth it.

    `base`: the release itself where it stands already, or else the current one.
    """

    def __init__(
        self, base: Held | None, others: Iterable[str], look: Look, twin: str | None = None
    ) -> None:
        self._look = look
        at = os.fsencode(twin) if twin is not None else None
        self._open = [(base, look(base, at))] if base is not None else []
        self._waiting = list(others)
        self._found: dict[str, bytes] = {}

    def lacking(self, listing: Listing) -> dict[str, wire.Entry]:
        """What no release holds under its own path, by content; the search for it is begun."""
        lacking = self._not_under_its_path(listing.files())
        self._search(lacking)
        left = sum(e.size for content, e in lacking.items() if content not in self._found)
        while left > _WORTH_A_SEARCH_BYTES and self._open_next():
            lacking = self._not_under_its_path(listing.files())
            self._search(lacking)
            left = sum(e.size for content, e in lacking.items() if content not in self._found)
        return lacking

    @property
    def at_hand(self) -> tuple[Held, frozenset[str]] | None:
        """The release closest at hand, and what of it has changed."""
        return self._open[0] if self._open else None

    def same_path(self, entry: wire.Entry) -> tuple[bytes, Known] | None:
        """A file that holds the entry's content under the entry's own path."""
        for held, changed in self._open:
            known = held.known.get(entry.path)
            if known is not None and known.content == entry.content and entry.path not in changed:
                return inside(held.root, entry.path), known
        return None

    def anywhere(self, content: str) -> bytes | None:
        """A file that holds the content, under whatever path; only of what was lacking."""
        return self._found.get(content)

    def _not_under_its_path(self, files: Iterable[wire.Entry]) -> dict[str, wire.Entry]:
        lacking: dict[str, wire.Entry] = {}
        indexes = [(held.known, changed) for held, changed in self._open]
        for entry in files:
            path, content = entry.path, entry.content
            for index, changed in indexes:
                known = index.get(path)
                if known is not None and known.content == content and path not in changed:
                    break
            else:
                if entry.size:
                    lacking.setdefault(content, entry)
        return lacking

    def _search(self, wanted: dict[str, wire.Entry]) -> None:
        if not wanted:
            return
        for held, _ in self._open:
            for path, known in held.known.items():
                content = known.content
                if content in wanted and content not in self._found:
                    there = inside(held.root, path)
                    if still(there, known) is not None:
                        self._found[content] = there

    def _open_next(self) -> bool:
        while self._waiting:
            held = listings.held(self._waiting.pop(0))
            if held is not None:
                self._open.append((held, self._look(held, None)))
                return True
        return False
