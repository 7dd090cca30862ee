"""A twin of the current release, made ahead of time, so that the next deploy only changes it.

Owns `releases/.spare-<digest>`: the same files by hard link, without the marks of a release. It
is made after a deploy was answered, used up by the next, and removed once it is not of the current
release. Stdlib only and Python 3.10: shipped inside the probe.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
import time
from typing import TYPE_CHECKING

from . import listing as listings
from . import manifest as wire
from .errors import OpError
from .listing import inside
from .workdir import SPARE, TRASH, Workdir

if TYPE_CHECKING:
    from .listing import Listing

LEAST_FILES = 500
"""Fewer are linked sooner than it is worth to keep a twin of them."""

_AFTER_S = 0.2
"""The answer goes out first."""


def path_of(workdir: Workdir, digest: str) -> str | None:
    """The twin of a release; None where there is none."""
    path = os.path.join(workdir.releases, SPARE + digest)
    return path if os.path.isdir(path) else None


def prepare(workdir: Workdir, digest: str) -> None:
    """Begin to make the twin of the current release, where that is worth it."""
    held = listings.held(workdir.release(digest))
    if held is None or len(held.listing.entries) < LEAST_FILES:
        return

    def later() -> None:
        time.sleep(_AFTER_S)
        make(workdir, digest)

    threading.Thread(target=later, daemon=True).start()


def make(workdir: Workdir, digest: str) -> None:
    """Make the twin of a release that is the current one.

    Never fails: without a twin the next deploy takes a little longer.
    """
    fresh = os.path.join(workdir.releases, f"{TRASH}spare-{os.getpid()}")
    with contextlib.suppress(OSError, OpError), workdir.exclusively():
        held = listings.held(workdir.release(digest))
        if held is None or workdir.current() != digest or path_of(workdir, digest) is not None:
            return
        try:
            _link_all(held.listing, held.root, os.fsencode(fresh))
            os.rename(fresh, os.path.join(workdir.releases, SPARE + digest))
        finally:
            shutil.rmtree(fresh, ignore_errors=True)


def _link_all(listing: Listing, old: bytes, new: bytes) -> None:
    made: set[bytes] = set()
    for path, entry in listing.entries.items():
        there = inside(new, path)
        folder = there if entry.kind == wire.FOLDER else os.path.dirname(there)
        if folder not in made:
            os.makedirs(folder, exist_ok=True)
            made.add(folder)
        if entry.kind == wire.FOLDER:
            os.chmod(folder, entry.mode)
        else:
            os.link(inside(old, path), there, follow_symlinks=False)


def adapt(root: bytes, was: Listing, becomes: Listing) -> list[wire.Entry]:
    """Remove from a twin what is otherwise in another release; what is left to be placed."""
    keep = becomes.entries
    for path, entry in was.entries.items():
        if keep.get(path) != entry:
            _remove(root, inside(root, path))
    return [entry for path, entry in keep.items() if was.entries.get(path) != entry]


def _remove(root: bytes, path: bytes) -> None:
    """Remove a path and the folders that held nothing else."""
    if os.path.isdir(path) and not os.path.islink(path):
        os.rmdir(path)
    else:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
    folder = os.path.dirname(path)
    with contextlib.suppress(OSError):  # one that holds something else stays
        while folder != root:
            os.rmdir(folder)
            folder = os.path.dirname(folder)
