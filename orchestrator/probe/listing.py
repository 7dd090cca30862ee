"""What a release here consists of, as it was when it was verified.

Owns the two files beside a release's package: `manifest`, the canonical text, and `files.bin`,
time stamp and inode of each of its files in the text's order. The newest few are kept in memory,
so that a deploy which changes one file of thousands reads and parses nothing.
Whether it still is that: freshness.py. Stdlib only and Python 3.10: shipped inside the probe.
"""

from __future__ import annotations

import hashlib
import os
import sys
import threading
from array import array
from typing import TYPE_CHECKING, Any, NamedTuple

from . import manifest as wire

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MANIFEST = "manifest"
INDEX = "files.bin"
_KEPT = 4


class Known(NamedTuple):
    """A file of a release as it was when it was verified."""

    content: str
    mode: int
    size: int
    mtime_ns: int
    inode: int


Index = dict[str, Known]
"""By path."""


class Listing:
    """The entries of a release and their lines, by path; never changed once it is made."""

    __slots__ = ("entries", "header", "lines", "manifest")

    def __init__(self, header: str, lines: dict[str, str], entries: dict[str, wire.Entry]) -> None:
        self.header = header
        self.lines = lines
        self.entries = entries
        self.manifest = wire.decode_header(header)
        """Without its entries."""

    @classmethod
    def of(cls, encoded: bytes) -> Listing:
        """Of the canonical text; ManifestError where it is none."""
        try:
            header, *lines = encoded.decode("ascii").split("\n")
        except ValueError as exc:
            raise wire.ManifestError("not a manifest") from exc
        entries = wire.entries_of(lines)
        return cls(
            header,
            {entry.path: line for entry, line in zip(entries, lines)},  # noqa: B905  3.10: one each
            {entry.path: entry for entry in entries},
        )

    def changed(self, header: str, drop: Iterable[str], add: list[str]) -> Listing:
        """Another one: without the paths of `drop`, with the lines of `add`."""
        lines, entries = self.lines.copy(), self.entries.copy()
        for path in drop:
            lines.pop(path, None)
            entries.pop(path, None)
        for entry, line in zip(wire.entries_of(add), add):  # noqa: B905  one each
            lines[entry.path] = line
            entries[entry.path] = entry
        return Listing(header, lines, entries)

    def encode(self) -> bytes:
        """The canonical text."""
        return wire.join(self.header, self.lines.values())

    def files(self) -> Iterator[wire.Entry]:
        """The entries that are files."""
        return (entry for entry in self.entries.values() if entry.kind == wire.FILE)


class Held(NamedTuple):
    """A release that stands here."""

    root: bytes
    listing: Listing
    known: Index


class _Remembered(NamedTuple):
    identity: tuple[int, int]
    held: Held


_memory: dict[bytes, _Remembered] = {}
_offered: dict[tuple[str, str], Listing] = {}
_guard = threading.Lock()


def understood(workdir: str, digest: str, told: dict[str, Any], base: Held | None) -> Listing:
    """The listing of an offer, kept for its commit; ManifestError where it is not the digest's.

    `told` has the whole text, `{whole}`, or what is different from `base`, `{header, drop, add}`.
    """
    with _guard:
        known = _offered.get((workdir, digest))
    if known is not None:
        return known
    if "whole" in told:
        listing = Listing.of(wire.unpack(told["whole"]))
    elif base is not None:
        listing = base.listing.changed(told["header"], told["drop"], told["add"])
    else:
        raise wire.ManifestError("changes of a release that is not here")
    if wire.digest_of(listing.encode()) != digest:
        raise wire.ManifestError("the manifest is not the one that the digest names")
    with _guard:
        keep(_offered, (workdir, digest), listing, 2)
    return listing


def held(release: str) -> Held | None:
    """What is known of a release; None where that is missing or broken."""
    root = os.fsencode(release)
    try:
        found = os.stat(os.path.join(root, INDEX.encode()))
        identity = (found.st_ino, found.st_mtime_ns)
        with _guard:
            known = _memory.get(root)
        if known is not None and known.identity == identity:
            return known.held
        read = _read(root)
    except (OSError, ValueError):
        return None
    _remember(root, identity, read)
    return read


def _read(root: bytes) -> Held:
    with open(os.path.join(root, MANIFEST.encode()), "rb") as file:
        listing = Listing.of(file.read())
    with open(os.path.join(root, INDEX.encode()), "rb") as file:
        stamps = array("Q", file.read())
    if sys.byteorder == "big":
        stamps.byteswap()
    entries = list(listing.files())
    if len(stamps) != 2 * len(entries):
        raise ValueError("not the index of this manifest")
    pairs = zip(entries, stamps[::2], stamps[1::2])  # noqa: B905  their lengths were compared
    index = {e.path: Known(e.content, e.mode, e.size, stamp, inode) for e, stamp, inode in pairs}
    return Held(root, listing, index)


def write(root: bytes, listing: Listing, index: Index) -> list[bytes]:
    """Keep what a release consists of, each file by one rename; the files that were written."""
    encoded = listing.encode()
    stamps = array("Q")
    for path in _paths_in_order(listing):
        known = index[path]
        stamps.append(known.mtime_ns)
        stamps.append(known.inode)
    if sys.byteorder == "big":
        stamps.byteswap()
    written = []
    for name, content in ((MANIFEST, encoded), (INDEX, stamps.tobytes())):
        final = os.path.join(root, name.encode())
        with open(final + b".new", "wb") as file:
            file.write(content)
        os.rename(final + b".new", final)
        written.append(final)
    return written


def _paths_in_order(listing: Listing) -> list[str]:
    """Of the files, as their lines stand in the text."""
    entries = listing.entries
    in_order = sorted(listing.lines.items(), key=_by_line)
    return [path for path, _ in in_order if entries[path].kind == wire.FILE]


def _by_line(item: tuple[str, str]) -> str:
    return item[1]


def settle(release: str, listing: Listing, index: Index) -> None:
    """Remember a release that was just built and now stands under its name."""
    root = os.fsencode(release)
    found = os.stat(os.path.join(root, INDEX.encode()))
    _remember(root, (found.st_ino, found.st_mtime_ns), Held(root, listing, index))


def _remember(root: bytes, identity: tuple[int, int], what: Held) -> None:
    with _guard:
        keep(_memory, root, _Remembered(identity, what), _KEPT)


def keep(memory: dict[Any, Any], key: Any, value: Any, most: int) -> None:
    """Remember a value as the newest; the oldest go above `most`."""
    memory.pop(key, None)
    memory[key] = value
    while len(memory) > most:
        del memory[next(iter(memory))]


def sha256_of(path: bytes) -> str:
    """SHA-256 of a file, hex."""
    seen = hashlib.sha256()
    with open(path, "rb") as file:
        while part := file.read(1 << 20):
            seen.update(part)
    return seen.hexdigest()


def inside(root: bytes, path: str) -> bytes:
    """A manifest's path below a folder."""
    return root + b"/" + path.encode("utf-8", "surrogateescape")
