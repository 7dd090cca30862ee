"""Walks a package's folder: which files, links and empty folders it has, and why some cannot go.

Owns the reading of what is not known yet. What is left out is ignore.py's, the bundle bundle.py's.
"""

import os
import stat
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from orchestrator.core.errors import DeployError
from orchestrator.core.model import Job
from orchestrator.deploy.hashes import HashCache, Identity, Made, Source, identity_of, read
from orchestrator.deploy.ignore import Ignore
from orchestrator.probe import manifest as wire

MAX_FILE_BYTES = 2 * 1024**3
MAX_DEPTH = 100
"""Folders in one another; both ends go down them by calls in calls."""
_SHOWN = 20
_READERS = 4
_READ_ALONE_BYTES = 256 * 1024
"""A smaller file is read sooner than it is handed to another thread."""


OnUnread = Callable[[int], None]


class _File(NamedTuple):
    """A file of the package, on the way to its entry."""

    name: str
    """Of the package."""
    place: str
    """Its path in the release."""
    mode: int
    path: bytes
    identity: Identity

    @property
    def size(self) -> int:
        return self.identity[0]


class Walk:
    """Gathers the entries of folders, and every reason why they cannot be shipped."""

    def __init__(self, cache: HashCache, now: float, on_unread: OnUnread) -> None:
        self.entries: list[wire.Entry] = []
        self.lines: list[str] = []
        self.sources: dict[str, Source] = {}
        self.problems: list[str] = []
        self._cache = cache
        self._now = now
        self._on_unread = on_unread
        self._same: list[Made] = []
        self._seen: set[bytes] = set()
        self._unread: list[_File] = []

    def tree(self, root: bytes, name: str, ignore: Ignore) -> None:
        """Add a folder under `name`."""
        if not os.path.isdir(root):  # noqa: PTH112  a bytes path
            self.problems.append(f"{shown(root)} is no folder")
            return
        self._seen, self._same = set(), []
        self._below(root, b"", name, ignore)
        self._take_same()
        self._read_unread()
        self._cache.walked(root, self._seen)

    def _take_same(self) -> None:
        """Take all files that are as an earlier walk saw them; thousands, so one list at a time."""
        same = self._same
        self.entries += [made.entry for made in same]
        self.lines += [made.line for made in same]
        self.sources.update([(made.entry.content, made.source) for made in same])
        self._seen.update([made.source.path for made in same])

    def _below(self, folder: bytes, inside: bytes, name: str, ignore: Ignore) -> bool:
        """Add what a folder holds; whether that is anything."""
        if inside.count(b"/") >= MAX_DEPTH:
            self.problems.append(f"{shown(folder)} is more than {MAX_DEPTH} folders deep")
            return True
        ignore = ignore.entering(folder, inside)
        try:
            with os.scandir(folder) as listing:
                children = list(listing)
        except OSError as exc:
            self._miss(folder, exc)
            return True
        anything = False
        prefix = inside + b"/" if inside else b""
        known, same, leaves_out = self._cache.made.get, self._same, ignore.leaves_out
        for child in children:
            path = prefix + child.name
            is_folder = child.is_dir(follow_symlinks=False)
            if leaves_out(path, child.name, is_folder=is_folder):
                continue
            try:
                if is_folder:
                    if self._below(child.path, path, name, ignore):
                        anything = True
                        continue
                    if os.listdir(child.path):  # noqa: PTH208  a bytes path
                        continue
                found = child.stat(follow_symlinks=False)
                anything = True
                made = known(child.path)
                if made and made.source.identity == identity_of(found) and made.name == name:
                    same.append(made)
                else:
                    self._add(name, path, child.path, found)
            except OSError as exc:
                self._miss(child.path, exc)
        return anything

    def _miss(self, path: bytes, exc: OSError) -> None:
        """What is gone since its folder was listed is not shipped; all else is to be."""
        if not isinstance(exc, FileNotFoundError):
            self.problems.append(f"{shown(path)} cannot be read ({exc.strerror})")

    def _add(self, name: str, inside: bytes, path: bytes, found: os.stat_result) -> None:
        if stat.S_ISREG(found.st_mode):
            self._add_file(name, inside, path, found)
            return
        place = f"{name}/{inside.decode('utf-8', 'surrogateescape')}"
        match stat.S_IFMT(found.st_mode):
            case stat.S_IFLNK:
                self._add_link(place, inside, path)
            case stat.S_IFDIR:
                mode = stat.S_IMODE(found.st_mode) & 0o777
                self._take(wire.Entry(place, wire.FOLDER, mode, 0, ""))
            case kind:
                word = _KINDS.get(kind, "special file")
                self.problems.append(f"{shown(path)} is a {word}, which cannot be shipped")

    def _take(self, entry: wire.Entry) -> str:
        line = wire.line_of(entry)
        self.entries.append(entry)
        self.lines.append(line)
        return line

    def _add_file(self, name: str, inside: bytes, path: bytes, found: os.stat_result) -> None:
        self._seen.add(path)
        identity = identity_of(found)
        if found.st_size > MAX_FILE_BYTES:
            self.problems.append(
                f"{shown(path)} has {found.st_size / 1024**3:.1f} GiB;"
                f" a file of a package has {MAX_FILE_BYTES / 1024**3:.1f} GiB at most"
            )
            return
        place = f"{name}/{inside.decode('utf-8', 'surrogateescape')}"
        file = _File(name, place, stat.S_IMODE(found.st_mode) & 0o777, path, identity)
        digest = self._cache.known(path, identity)
        if digest is None:
            self._unread.append(file)
        else:
            self._take_file(file, digest, settled=True)

    def _read_unread(self) -> None:
        """Read what is not known; large files side by side: hashing holds no lock of Python's."""
        self._on_unread(sum(file.size for file in self._unread))
        small = [file for file in self._unread if file.size < _READ_ALONE_BYTES]
        large = [file for file in self._unread if file.size >= _READ_ALONE_BYTES]
        self._unread = []
        self._take_read((file, read(file.path, file.size)) for file in small)
        if large:
            with ThreadPoolExecutor(_READERS) as pool:
                digests = pool.map(lambda file: read(file.path, file.size), large)
                self._take_read(zip(large, digests, strict=True))

    def _take_read(self, files: Iterable[tuple["_File", str | OSError]]) -> None:
        for file, digest in files:
            if isinstance(digest, OSError):
                # It was there when its folder was listed, and is part of the package.
                self.problems.append(f"{shown(file.path)} cannot be read ({digest.strerror})")
                continue
            settled = self._cache.learn(file.path, file.identity, digest, self._now)
            self._take_file(file, digest, settled=settled)

    def _take_file(self, file: "_File", digest: str, *, settled: bool) -> None:
        entry = wire.Entry(file.place, wire.FILE, file.mode, file.size, digest)
        source = Source(path=file.path, identity=file.identity)
        line = self._take(entry)
        self.sources[digest] = source
        if settled:
            made = Made(name=file.name, source=source, entry=entry, line=line)
            self._cache.made[file.path] = made

    def _add_link(self, place: str, inside: bytes, path: bytes) -> None:
        target = os.readlink(path)  # noqa: PTH115  a bytes path
        here = os.path.dirname(inside)  # noqa: PTH120  a bytes path
        landing = os.path.normpath(os.path.join(here, target))  # noqa: PTH118  a bytes path
        if target.startswith(b"/") or landing == b".." or landing.startswith(b"../"):
            self.problems.append(f"{shown(path)} is a link out of the package, to {shown(target)}")
            return
        text = target.decode("utf-8", "surrogateescape")
        self._take(wire.Entry(place, wire.LINK, 0, len(target), text))

    def refuse_if_needed(self, job: Job) -> None:
        """DeployError with everything that was found wrong, at once."""
        if not self.problems:
            return
        named = "; ".join(sorted(self.problems)[:_SHOWN])
        more = len(self.problems) - _SHOWN
        rest = f"; and {more} more" if more > 0 else ""
        raise DeployError(
            f"the package {job.package} cannot be shipped: {named}{rest}.",
            remedy="Change them, or name them in .gitignore or under `exclude:`.",
        )


_KINDS: dict[int, str] = {
    stat.S_IFSOCK: "socket",
    stat.S_IFIFO: "FIFO",
    stat.S_IFCHR: "device",
    stat.S_IFBLK: "device",
}


def shown(path: bytes) -> str:
    """A path for a sentence: control characters and broken bytes are escaped."""
    text = path.decode("utf-8", "backslashreplace")
    return text if text.isprintable() else repr(text)[1:-1]
