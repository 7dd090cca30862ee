"""Builds the tree of a release out of what was sent and of what older releases hold.

Owns where each file comes from and that it is what the manifest says. Stdlib only, Python 3.10.

A file shares its blocks with the same path of an older release, by reflink where the file system
can and by hard link where not. It is trusted without being read while size, inode and time stamp
are those noted when it was last verified; a program that wrote into its release is found by them.
"""

from __future__ import annotations

import ctypes
import fcntl
import functools
import hashlib
import json
import os
import shutil
import stat
from typing import TYPE_CHECKING, Any, NamedTuple

from . import manifest as wire
from .errors import OpError

if TYPE_CHECKING:
    from collections.abc import Iterable

INDEX = "files.json"
_FICLONE = 0x40049409
_SYNC_EACH = 64
"""Up to so many new files are synced one by one, more by one sync of the file system."""


class Known(NamedTuple):
    """A file of a release as it was when it was verified."""

    content: str
    mode: int
    size: int
    mtime_ns: int
    inode: int


Index = dict[str, list[Any]]
"""Path -> the fields of a Known, not made into one before it is needed: there are thousands."""


def read_index(release: bytes) -> Index:
    """What is known of the files of a release; empty where its index is missing or broken."""
    path = os.path.join(release, INDEX.encode())
    try:
        found = os.stat(path)
        return _index_of(path, found.st_ino, found.st_mtime_ns)
    except (OSError, ValueError):
        return {}


@functools.lru_cache(maxsize=4)
def _index_of(path: bytes, _inode: int, _mtime_ns: int) -> Index:
    """An offer and its commit read the same ones: an index is written once, by rename."""
    with open(path, "rb") as file:
        rows = json.loads(file.read())
    if not isinstance(rows, dict):
        raise ValueError("not an index")  # noqa: TRY004  one error for a bad file
    return rows


def sha256_of(path: bytes) -> str:
    """SHA-256 of a file, hex."""
    seen = hashlib.sha256()
    with open(path, "rb") as file:
        while part := file.read(1 << 20):
            seen.update(part)
    return seen.hexdigest()


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


class Stock:
    """The files of older releases, newest first; an index is read only once it is needed."""

    def __init__(self, releases: Iterable[str]) -> None:
        self._waiting = [os.fsencode(release) for release in releases]
        self._open: list[tuple[bytes, Index]] = []
        self._by_content: dict[str, list[tuple[bytes, list[Any]]]] | None = None

    def same_path(self, entry: wire.Entry) -> tuple[bytes, os.stat_result] | None:
        """A file that holds the entry's content under the entry's own path, and its stat."""
        at = 0
        while at < len(self._open) or self._open_next():
            root, index = self._open[at]
            row = index.get(entry.path)
            if row is not None and row[0] == entry.content:
                path = inside(root, entry.path)
                found = still(path, Known(*row))
                if found is not None:
                    return path, found
            at += 1
        return None

    def anywhere(self, content: str) -> bytes | None:
        """A file that holds the content, under whatever path."""
        while self._open_next():
            pass
        if self._by_content is None:
            self._by_content = {}
            for root, index in self._open:
                for name, row in index.items():
                    self._by_content.setdefault(row[0], []).append((inside(root, name), row))
        for path, row in self._by_content.get(content, ()):
            if still(path, Known(*row)) is not None:
                return path
        return None

    def _open_next(self) -> bool:
        if not self._waiting:
            return False
        root = self._waiting.pop(0)
        self._open.append((root, read_index(root)))
        self._by_content = None
        return True


def inside(root: bytes, path: str) -> bytes:
    """A manifest's path below a folder."""
    return root + b"/" + path.encode("utf-8", "surrogateescape")


class Builder:
    """Puts the entries of a manifest into a folder, each of them whole or not at all."""

    def __init__(self, root: str, blobs: str, stock: Stock) -> None:
        self._root = os.fsencode(root)
        self._blobs = os.fsencode(blobs)
        self._stock = stock
        self._repairs = os.path.isdir(self._root)
        self._before = read_index(self._root)
        self._arrived = frozenset(os.listdir(blobs))
        self._folders: set[bytes] = set()
        self._reflinks = True
        self.index: Index = {}
        self.fresh: list[bytes] = []
        self._placed: dict[str, bytes] = {}
        self.linked = 0

    def build(self, manifest: wire.Manifest) -> None:
        """Place everything and write the index; what stands there already and is right stays."""
        os.makedirs(self._root, exist_ok=True)
        for entry in manifest.entries:
            path = inside(self._root, entry.path)
            self._make_folder(os.path.dirname(path))
            if entry.kind == wire.FILE:
                self._place_file(entry, path)
            elif entry.kind == wire.LINK:
                self._place_link(entry, path)
            else:
                os.makedirs(path, exist_ok=True)
                os.chmod(path, entry.mode)
        self._write_index()
        self._sync()

    def _make_folder(self, path: bytes) -> None:
        if path not in self._folders:
            os.makedirs(path, exist_ok=True)
            self._folders.add(path)

    def _place_file(self, entry: wire.Entry, path: bytes) -> None:
        before = self._before.get(entry.path)
        now = None
        if before is not None and before[0] == entry.content:
            now = still(path, Known(*before))
        if now is None:
            now = self._put(entry, path)
        if stat.S_IMODE(now.st_mode) != entry.mode:
            os.chmod(path, entry.mode)
        self.index[entry.path] = [
            entry.content, entry.mode, now.st_size, now.st_mtime_ns, now.st_ino,
        ]  # fmt: skip

    def _put(self, entry: wire.Entry, path: bytes) -> os.stat_result:
        """Make a file, or change it by one rename: a release under repair may be in use."""
        if not self._repairs or not os.path.lexists(path):
            now, new = self._fill(entry, path)
        else:
            fresh = os.path.join(os.path.dirname(path), b".orch-new")
            self._clear(fresh)
            now, new = self._fill(entry, fresh)
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path)
            os.rename(fresh, path)
        if new:
            self.fresh.append(path)
            self._placed.setdefault(entry.content, path)
        return now

    def _fill(self, entry: wire.Entry, path: bytes) -> tuple[os.stat_result, bool]:
        """Make a file where nothing stands; its stat, and whether its bytes are new to the disk."""
        if entry.size == 0:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC))
        elif entry.content in self._placed:
            self._copy(self._placed[entry.content], path)
        elif entry.content in self._arrived:
            blob = os.path.join(self._blobs, entry.content.encode())
            self._require(entry, blob)
            os.rename(blob, path)
        else:
            shared = self._share(entry, path)
            if shared is not None:
                return shared, False
            source = self._stock.anywhere(entry.content)
            if source is None:
                raise _damaged(entry)
            self._copy(source, path)
            self._require(entry, path)
        return os.lstat(path), True

    def _share(self, entry: wire.Entry, path: bytes) -> os.stat_result | None:
        """Share the blocks of the same path in an older release; the stat of what was made.

        Two paths of one release never share an inode, nor do files of two modes.
        """
        found = self._stock.same_path(entry)
        if found is None or stat.S_IMODE(found[1].st_mode) != entry.mode:
            return None
        self.linked += 1
        if self._reflink(found[0], path):
            return os.lstat(path)
        os.link(found[0], path)
        return found[1]

    def _copy(self, source: bytes, path: bytes) -> None:
        if not self._reflink(source, path):
            shutil.copyfile(source, path)

    @staticmethod
    def _require(entry: wire.Entry, path: bytes) -> None:
        if sha256_of(path) != entry.content:
            raise _damaged(entry)

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

    def _write_index(self) -> None:
        path = os.path.join(self._root, INDEX.encode())
        with open(path + b".new", "w", encoding="ascii") as file:
            # `json.dump` would not use the encoder in C, and take ten times as long.
            file.write(json.dumps(self.index, separators=(",", ":")))
        os.rename(path + b".new", path)
        self.fresh.append(path)

    def _sync(self) -> None:
        if len(self.fresh) > _SYNC_EACH and _sync_file_system(self._root):
            return
        for path in self.fresh:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)


def _sync_file_system(path: bytes) -> bool:
    """`syncfs`, which Python does not have; False where it failed."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return bool(ctypes.CDLL(None).syncfs(fd) == 0)
    except AttributeError:
        return False
    finally:
        os.close(fd)


def _damaged(entry: wire.Entry) -> OpError:
    return OpError(
        "DeployError",
        f"{entry.path!r} did not arrive as it was sent; `current` was not touched.",
        "Deploy again.",
    )
