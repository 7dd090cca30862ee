"""Turns a package's folder into a bundle: what would be shipped, and the digest of all of it.

Owns what is left out, what is refused and the cache of hashes. Talks to no target.
"""

import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orchestrator.core.errors import DeployError
from orchestrator.core.model import Job, Setup
from orchestrator.deploy.hashes import HashCache
from orchestrator.deploy.ignore import Ignore
from orchestrator.probe import manifest as wire

MAX_FILE_BYTES = 2 * 1024**3
MAX_FILES = 100_000
_SHOWN = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """A package as it is now, ready to be sent."""

    digest: str
    manifest: wire.Manifest
    packed: str
    """The manifest as it travels."""
    sources: dict[str, bytes] = field(repr=False)
    """SHA-256 of a file -> a path here that held it."""
    folder: str

    @property
    def name(self) -> str:
        """Of the package; the release's inner folder."""
        return self.manifest.name

    @property
    def files(self) -> int:
        """Number of files, links and empty folders."""
        return len(self.manifest.entries)

    @property
    def bytes(self) -> int:
        """Of all files together."""
        return sum(e.size for e in self.manifest.entries if e.kind == wire.FILE)


def collect(job: Job, *, cache: Path, now: float) -> Bundle:
    """The bundle of a job's package; DeployError names everything that cannot be shipped.

    `cache` is a file of the state folder in which hashes are kept between calls; `now` is unix
    seconds, taken before the call. Blocks: hashes what changed since the last call.
    """
    if job.package is None:
        raise DeployError(
            f"job {job.name} has no package to deploy.",
            remedy="Name its folder under `package:` in the inventory.",
        )
    hashes = HashCache.load(cache, now)
    walk = _Walk(hashes)
    name = Path(job.package).name
    package = os.fsencode(job.package)
    shared = tuple(sorted(job.shared))
    walk.tree(package, name, Ignore.of(package, (*job.exclude, *(f"/{s}" for s in shared))))
    if job.wheelhouse is not None:
        walk.tree(os.fsencode(job.wheelhouse), wire.WHEELS, Ignore.none())
    walk.refuse_if_needed(job)
    setup = _setup_of(job.setup, name, walk)
    manifest = wire.Manifest(name, tuple(sorted(walk.entries)), setup, shared)
    encoded = manifest.encode()
    packed = wire.pack(encoded)
    if len(walk.entries) > MAX_FILES or len(packed) > wire.MAX_MANIFEST_BYTES * 4 // 3:
        raise DeployError(
            f"the package {job.package} has {len(walk.entries)} files;"
            f" at most {MAX_FILES} are shipped.",
            remedy="Name what the job does not need in .gitignore or under `exclude:`.",
        )
    hashes.save(cache)
    return Bundle(
        digest=wire.digest_of(encoded),
        manifest=manifest,
        packed=packed,
        sources=walk.sources,
        folder=job.package,
    )


def _setup_of(setup: Setup | None, name: str, walk: "_Walk") -> dict[str, Any] | None:
    if setup is None:
        return None
    requirements = setup.requirements
    if requirements is not None and not any(
        entry.path == f"{name}/{requirements}" for entry in walk.entries
    ):
        raise DeployError(
            f"setup.requirements names {requirements}, which is not in the package {name}.",
            remedy="Name a file relative to the package's folder that is not left out.",
        )
    return {
        "python": setup.python,
        "requirements": requirements,
        "system_site_packages": setup.system_site_packages,
        "run": list(setup.run),
    }


class _Walk:
    """Gathers the entries of folders, and every reason why they cannot be shipped."""

    def __init__(self, hashes: HashCache) -> None:
        self.entries: list[wire.Entry] = []
        self.sources: dict[str, bytes] = {}
        self.problems: list[str] = []
        self._hashes = hashes

    def tree(self, root: bytes, name: str, ignore: Ignore) -> None:
        """Add a folder under `name`."""
        if not os.path.isdir(root):  # noqa: PTH112  a bytes path
            self.problems.append(f"{_shown(root)} is no folder")
            return
        self._hashes.walks(root)
        for found in self._below(root, b"", ignore):
            self._add(name, found)

    def _below(self, root: bytes, inside: bytes, ignore: Ignore) -> Iterator["_Found"]:
        folder = os.path.join(root, inside) if inside else root  # noqa: PTH118  a bytes path
        ignore = ignore.entering(folder, inside)
        try:
            with os.scandir(folder) as listing:
                children = sorted(listing, key=lambda child: child.name)
        except OSError as exc:
            self.problems.append(f"{_shown(folder)} cannot be read ({exc.strerror})")
            return
        for child in children:
            path = inside + b"/" + child.name if inside else child.name
            is_folder = child.is_dir(follow_symlinks=False)
            if ignore.leaves_out(path, child.name, is_folder=is_folder):
                continue
            if is_folder:
                below = list(self._below(root, path, ignore))
                yield from below
                if below or os.listdir(child.path):  # noqa: PTH208  a bytes path
                    continue
            try:
                yield _Found(path, child.path, child.stat(follow_symlinks=False))
            except FileNotFoundError:  # gone since the folder was listed: it is not shipped
                continue

    def _add(self, name: str, found: "_Found") -> None:
        path = f"{name}/{found.inside.decode('utf-8', 'surrogateescape')}"
        mode = stat.S_IMODE(found.stat.st_mode) & 0o777
        match stat.S_IFMT(found.stat.st_mode):
            case stat.S_IFREG:
                self._add_file(path, mode, found)
            case stat.S_IFLNK:
                self._add_link(path, found)
            case stat.S_IFDIR:
                self.entries.append(wire.Entry(path, wire.FOLDER, mode, 0, ""))
            case kind:
                word = _KINDS.get(kind, "special file")
                self.problems.append(f"{_shown(found.path)} is a {word}, which cannot be shipped")

    def _add_file(self, path: str, mode: int, found: "_Found") -> None:
        size = found.stat.st_size
        if size > MAX_FILE_BYTES:
            self.problems.append(
                f"{_shown(found.path)} has {size / 1e9:.1f} GB;"
                f" a file of a package has {MAX_FILE_BYTES / 1e9:.1f} GB at most"
            )
            return
        try:
            digest = self._hashes.of(found.path, found.stat)
        except OSError as exc:
            self.problems.append(f"{_shown(found.path)} cannot be read ({exc.strerror})")
            return
        self.entries.append(wire.Entry(path, wire.FILE, mode, size, digest))
        self.sources.setdefault(digest, found.path)

    def _add_link(self, path: str, found: "_Found") -> None:
        target = os.readlink(found.path)  # noqa: PTH115  a bytes path
        here = os.path.dirname(found.inside)  # noqa: PTH120  a bytes path
        landing = os.path.normpath(os.path.join(here, target))  # noqa: PTH118  a bytes path
        if target.startswith(b"/") or landing == b".." or landing.startswith(b"../"):
            self.problems.append(
                f"{_shown(found.path)} is a link out of the package, to {_shown(target)}"
            )
            return
        text = target.decode("utf-8", "surrogateescape")
        self.entries.append(wire.Entry(path, wire.LINK, 0, len(target), text))

    def refuse_if_needed(self, job: Job) -> None:
        """DeployError with everything that was found wrong, at once."""
        if not self.problems:
            return
        shown = "; ".join(self.problems[:_SHOWN])
        more = len(self.problems) - _SHOWN
        rest = f"; and {more} more" if more > 0 else ""
        raise DeployError(
            f"the package {job.package} cannot be shipped: {shown}{rest}.",
            remedy="Change them, or name them in .gitignore or under `exclude:`.",
        )


@dataclass(frozen=True, slots=True)
class _Found:
    inside: bytes
    """Relative to the folder that is shipped."""
    path: bytes
    stat: os.stat_result


_KINDS: dict[int, str] = {
    stat.S_IFSOCK: "socket",
    stat.S_IFIFO: "FIFO",
    stat.S_IFCHR: "device",
    stat.S_IFBLK: "device",
}


def _shown(path: bytes) -> str:
    """A path for a sentence: control characters and broken bytes are escaped."""
    text = path.decode("utf-8", "backslashreplace")
    return text if text.isprintable() else repr(text)[1:-1]


def read_pieces(
    bundle: Bundle, wanted: list[str], *, piece_bytes: int, on_read: Callable[[int], None]
) -> Iterator[bytes]:
    """Chunks of records for the wanted files, `piece_bytes` of content each or a little more.

    DeployError where a file no longer is what was hashed; memory stays flat.
    """
    pending: list[bytes] = []
    held = 0
    for sha in wanted:
        path = bundle.sources[sha]
        try:
            with open(path, "rb") as file:  # noqa: PTH123  a bytes path
                seen, offset = hashlib.sha256(), 0
                while part := file.read(piece_bytes - held):
                    seen.update(part)
                    pending.append(wire.record(sha, offset, part))
                    offset += len(part)
                    held += len(part)
                    on_read(len(part))
                    if held >= piece_bytes:
                        yield b"".join(pending)
                        pending, held = [], 0
        except OSError as exc:
            raise DeployError(
                f"{_shown(path)} cannot be read any more ({exc.strerror}).",
                remedy="Deploy again.",
            ) from exc
        if seen.hexdigest() != sha:
            raise DeployError(
                f"{_shown(path)} changed while it was being sent.", remedy="Deploy again."
            )
    if pending:
        yield b"".join(pending)
