"""Builds the tree of a release out of what was sent and of what older releases hold.

Owns where each file comes from and that it is what the manifest says. Stdlib only, Python 3.10.

A file shares its blocks with the same path of an older release, by reflink where the file system
can and by hard link where not.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from typing import TYPE_CHECKING

from . import blobs, spare
from . import listing as listings
from . import manifest as wire
from .errors import OpError
from .freshness import changed_since
from .listing import Index, Known, Listing, inside, sha256_of

if TYPE_CHECKING:
    from .stock import Stock

_FICLONE = 0x40049409
_SYNC_EACH = 64
"""Up to so many new files are synced one by one, more by one sync of the file system."""


class Builder:
    """Puts the entries of a listing into a folder, each of them whole or not at all."""

    def __init__(
        self,
        root: str,
        came: str,
        verified: frozenset[str],
        stock: Stock,
        *,
        is_twin: bool = False,
    ) -> None:
        self.root = root
        self._root = os.fsencode(root)
        self._is_twin = is_twin
        self._came = os.fsencode(came)
        self._verified = verified
        self._stock = stock
        self._repairs = not is_twin and os.path.isdir(self._root)
        self._before = listings.held(root) if self._repairs else None
        self._arrived = blobs.arrived(self._came)
        self._folders: set[bytes] = set()
        self._reflinks = True
        self._fresh: list[bytes] = []
        self._placed: dict[str, bytes] = {}
        self.index: Index = {}
        self.linked = 0

    def build(self, listing: Listing) -> None:
        """Place everything and write the index; what stands there already and is right stays."""
        os.makedirs(self._root, exist_ok=True)
        self._stock.lacking(listing)
        spared = changed_since(self._before) if self._before is not None else frozenset()
        for entry in listing.entries.values() if self._repairs else self._not_linked(listing):
            path = inside(self._root, entry.path)
            self._make_folder(os.path.dirname(path))
            if entry.kind == wire.FILE:
                self._place_file(entry, path, spared)
            elif entry.kind == wire.LINK:
                self._place_link(entry, path)
            else:
                os.makedirs(path, exist_ok=True)
                os.chmod(path, entry.mode)
        self._fresh += listings.write(self._root, listing, self.index)

    def _kept(self, listing: Listing) -> list[wire.Entry]:
        """Keep what a twin of the release at hand has already; the entries that are left."""
        held, changed = self._stock.at_hand or (None, frozenset())
        assert held is not None
        left = spare.adapt(self._root, held.listing, listing)
        for path in changed & listing.entries.keys() - {entry.path for entry in left}:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(inside(self._root, path))
            left.append(listing.entries[path])
        self.index = held.known.copy()
        for path in held.known.keys() - listing.entries.keys():
            del self.index[path]
        for entry in left:
            self.index.pop(entry.path, None)
        self.linked = len(self.index)
        return left

    def _not_linked(self, listing: Listing) -> list[wire.Entry]:
        """Link what is as it was in the release at hand; the entries that are left.

        This is where a deploy of thousands of files spends its time, so it is one plain loop.
        """
        if self._is_twin:
            return self._kept(listing)
        found = self._stock.at_hand
        if found is None or self._can_reflink(found[0].root):
            return list(listing.entries.values())
        known_of, changed = found[0].known.get, found[1]
        old, new, index, link = found[0].root + b"/", self._root + b"/", self.index, os.link
        left: list[wire.Entry] = []
        folder = None
        for path, entry in listing.entries.items():
            known = known_of(path)
            if (
                known is None
                or known.content != entry.content
                or known.mode != entry.mode
                or not known.size
                or path in changed
            ):
                left.append(entry)
                continue
            name = path.encode("utf-8", "surrogateescape")
            if name[: name.rfind(b"/")] != folder:
                folder = name[: name.rfind(b"/")]
                self._make_folder(new + folder)
            link(old + name, new + name)
            index[path] = known
        self.linked += len(index)
        return left

    def _can_reflink(self, source: bytes) -> bool:
        """Whether this file system lets two files share their blocks."""
        trial = self._root + b"/.orch-new"
        can = self._reflink(os.path.join(source, listings.MANIFEST.encode()), trial)
        if can:
            os.unlink(trial)
        return can

    def _make_folder(self, path: bytes) -> None:
        if path not in self._folders:
            os.makedirs(path, exist_ok=True)
            self._folders.add(path)

    def _place_file(self, entry: wire.Entry, path: bytes, changed: frozenset[str]) -> None:
        before = self._before.known.get(entry.path) if self._before is not None else None
        if before is None or before.content != entry.content or entry.path in changed:
            self.index[entry.path] = self._put(entry, path)
        else:
            self.index[entry.path] = before

    def _put(self, entry: wire.Entry, path: bytes) -> Known:
        """Make a file, or change it by one rename: a release under repair may be in use."""
        if not self._repairs or not os.path.lexists(path):
            return self._fill(entry, path, path)
        fresh = os.path.join(os.path.dirname(path), b".orch-new")
        self._clear(fresh)
        known = self._fill(entry, fresh, path)
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        os.rename(fresh, path)
        return known

    def _fill(self, entry: wire.Entry, path: bytes, final: bytes) -> Known:
        """Make a file where nothing stands; `final` is the name that it will have."""
        content = entry.content
        if content not in self._arrived and content not in self._placed and entry.size:
            shared = self._share(entry, path)
            if shared is not None:
                return shared
        if entry.size == 0:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC))
        elif content in self._placed:
            self._copy(self._placed[content], path)
        elif content in self._arrived:
            blob = blobs.place(self._came, content)
            if content not in self._verified:
                self._require(entry, blob)
            os.rename(blob, path)
        else:
            # Of another mode under the same path, or under another path.
            found = self._stock.same_path(entry)
            source = found[0] if found is not None else self._stock.anywhere(content)
            if source is None:
                raise damaged(entry.path)
            self._copy(source, path)
            self._require(entry, path)
        os.chmod(path, entry.mode)
        self._fresh.append(final)
        self._placed.setdefault(content, final)
        return _known(entry, os.lstat(path))

    def _share(self, entry: wire.Entry, path: bytes) -> Known | None:
        """Share the blocks of the same path in an older release.

        Two paths of one release never share an inode, nor do files of two modes.
        """
        found = self._stock.same_path(entry)
        if found is None or found[1].mode != entry.mode:
            return None
        self.linked += 1
        if self._reflinks and self._reflink(found[0], path):
            os.chmod(path, entry.mode)
            return _known(entry, os.lstat(path))
        os.link(found[0], path)
        return found[1]

    def _copy(self, source: bytes, path: bytes) -> None:
        if not self._reflink(source, path):
            shutil.copyfile(source, path)

    @staticmethod
    def _require(entry: wire.Entry, path: bytes) -> None:
        if sha256_of(path) != entry.content:
            raise damaged(entry.path)

    def _reflink(self, source: bytes, path: bytes) -> bool:
        if not self._reflinks:
            return False
        with open(source, "rb") as old, open(path, "wb") as new:
            try:
                fcntl.ioctl(new.fileno(), _FICLONE, old.fileno())
            except OSError:  # this file system cannot: hard links and copies from here on
                self._reflinks = False
        if not self._reflinks:
            os.unlink(path)
        return self._reflinks

    def _place_link(self, entry: wire.Entry, path: bytes) -> None:
        target = entry.content.encode("utf-8", "surrogateescape")
        if os.path.islink(path) and os.readlink(path) == target:
            return
        self._clear(path)
        os.symlink(target, path)

    @staticmethod
    def _clear(path: bytes) -> None:
        if os.path.islink(path) or os.path.isfile(path):
            os.unlink(path)
        elif os.path.isdir(path):
            shutil.rmtree(path)

    def sync(self, *more: str) -> None:
        """Make durable what was made, and some files more."""
        paths = [*self._fresh, *map(os.fsencode, more)]
        self._fresh = []
        if len(paths) > _SYNC_EACH and _sync_file_system(self._root):
            return
        opened = [os.open(path, os.O_RDONLY | os.O_CLOEXEC) for path in paths]
        try:
            # All on their way first: then the first sync's commit is that of the others as well.
            for fd in opened:
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            for fd in opened:
                os.fsync(fd)
        finally:
            for fd in opened:
                os.close(fd)


def _known(entry: wire.Entry, now: os.stat_result) -> Known:
    return Known(entry.content, entry.mode, now.st_size, now.st_mtime_ns, now.st_ino)


def _sync_file_system(path: bytes) -> bool:
    """`syncfs`, which Python does not have; False where it failed."""
    import ctypes

    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return bool(ctypes.CDLL(None).syncfs(fd) == 0)
    except AttributeError:
        return False
    finally:
        os.close(fd)


def damaged(path: str) -> OpError:
    """What came is not what was announced."""
    return OpError(
        "DeployError",
        f"{path!r} did not arrive as it was sent; `current` was not touched.",
        "Deploy again.",
    )
