"""Whether a release here still is what was verified, and how long such a look holds.

A file is trusted without being read while size, inode and time stamp are those noted when it was
last verified; a program that wrote into its release is found by them.
Stdlib only and Python 3.10: shipped inside the probe.
"""

from __future__ import annotations

import os
import stat
import threading
import time
from typing import TYPE_CHECKING, NamedTuple

from .listing import Held, Index, Known, keep, sha256_of

if TYPE_CHECKING:
    from collections.abc import Iterator

_KEPT = 4
_LOOK_HOLDS_S = 5.0
"""An offer follows the walk of a package at once, a commit its offer: neither need look again."""
_AHEAD, _OFFERED = "ahead", "offered"


class _Look(NamedTuple):
    at: float
    of: Index
    changed: frozenset[str]


_looks: dict[tuple[str, bytes, bool], _Look] = {}
_guard = threading.Lock()


def changed_since(what: Held, at: bytes | None = None) -> frozenset[str]:
    """Files of a release that are no longer what was verified; read only where a stamp differs.

    `at`: the twin of the release that is looked at in its place.
    """
    return frozenset(_differing(what, what.root if at is None else at))


def look_ahead(what: Held, at: bytes | None = None) -> frozenset[str]:
    """As `changed_since`, for the offer that follows."""
    return _looked(what, at, _AHEAD).changed


def changed_since_ahead(what: Held, at: bytes | None = None) -> frozenset[str]:
    """As `changed_since`, for the commit that follows; a look ahead from just now counts, once."""
    look = _recent(what, at, _AHEAD)
    if look is None:
        return _looked(what, at, _OFFERED).changed
    with _guard:
        keep(_looks, (_OFFERED, what.root, at is None), look, _KEPT)
    return look.changed


def changed_since_offer(what: Held, at: bytes | None = None) -> frozenset[str]:
    """As `changed_since`; the look of an offer that was made just now counts, once."""
    look = _recent(what, at, _OFFERED)
    return changed_since(what, at) if look is None else look.changed


def _looked(what: Held, at: bytes | None, stage: str) -> _Look:
    began = time.monotonic()
    look = _Look(began, what.known, changed_since(what, at))
    with _guard:
        keep(_looks, (stage, what.root, at is None), look, _KEPT)
    return look


def _recent(what: Held, at: bytes | None, stage: str) -> _Look | None:
    """The look of a stage, at the release or at its twin as here; taken away."""
    with _guard:
        look = _looks.pop((stage, what.root, at is None), None)
    if look is None or look.of is not what.known:
        return None
    return look if look.at > time.monotonic() - _LOOK_HOLDS_S else None


def _differing(what: Held, root: bytes) -> Iterator[str]:
    prefix, lstat = root + b"/", os.lstat
    for path, known in what.known.items():
        there = prefix + path.encode("utf-8", "surrogateescape")
        try:
            now = lstat(there)
        except OSError:
            yield path
            continue
        if (
            now.st_mtime_ns == known.mtime_ns
            and now.st_ino == known.inode
            and now.st_size == known.size
            and now.st_mode & 0o7777 == known.mode
        ):
            continue
        if now.st_mode & 0o7777 != known.mode or still(there, known) is None:
            yield path


def still(path: bytes, known: Known) -> os.stat_result | None:
    """The stat of a file that still is what it was known as; read only where that has changed."""
    try:
        now = os.lstat(path)
    except OSError:
        return None
    if not stat.S_ISREG(now.st_mode) or now.st_size != known.size:
        return None
    same = now.st_mtime_ns == known.mtime_ns and now.st_ino == known.inode
    return now if same or sha256_of(path) == known.content else None
