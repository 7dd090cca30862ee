"""What is known of the files of packages from earlier deploys, so that only what changed is read.

Owns the cache file and its image in memory, which walks in several threads share. A file counts as
unchanged while size, inode and both time stamps are. It is a help only: nothing fails by it.
"""

import hashlib
import json
import logging
import os
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.probe import manifest as wire

_VERSION = 1
_SETTLED_S = 0.1
"""A file changed more recently may change again within one tick of its time stamp."""

_AT_ONCE_BYTES = 64 * 1024
_UNSAVED_PART = 0.02
_UNSAVED_BYTES = 16 * 1024 * 1024

logger = logging.getLogger(__name__)

Identity = tuple[int, int, int, int]


def identity_of(stat: os.stat_result) -> Identity:
    """Whatever changes when a file does."""
    return (stat.st_size, stat.st_ino, stat.st_mtime_ns, stat.st_ctime_ns)


def read(path: bytes, size: int) -> str | OSError:
    """SHA-256 of a file that had `size` bytes, hex, or why it cannot be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # it may be a FIFO by now
        try:
            if size < _AT_ONCE_BYTES:  # a third of the time that a file object takes
                content = os.read(fd, size + 1)
                if len(content) == size:
                    return hashlib.sha256(content).hexdigest()
                os.lseek(fd, 0, os.SEEK_SET)
            with open(fd, "rb", closefd=False) as file:
                return hashlib.file_digest(file, "sha256").hexdigest()
        finally:
            os.close(fd)
    except OSError as exc:
        return exc


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A file here that held a content when it was hashed."""

    path: bytes
    identity: Identity


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """What a walk made of a file."""

    name: str
    """Of the package."""
    source: Source
    entry: wire.Entry
    line: str
    """The entry in the manifest's canonical text."""


class HashCache:
    """SHA-256 by path and stat. Lives as long as the daemon."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._known: dict[str, list[Any]] | None = None
        self._unsaved = 0
        self._unsaved_bytes = 0
        self.made: dict[bytes, Made] = {}
        """What earlier walks made of files, by path here."""
        self.verdicts: dict[Any, dict[tuple[bytes, bool], bool]] = {}
        """Which paths the patterns of a folder leave out, by those patterns."""

    def known(self, path: bytes, identity: Identity) -> str | None:
        """SHA-256 of a file, hex, where it was read before and is the same."""
        with self._lock:
            row = self._loaded().get(path.decode("utf-8", "surrogateescape"))
        return str(row[0]) if row is not None and tuple(row[1:]) == identity else None

    def learn(self, path: bytes, identity: Identity, digest: str, now: float) -> bool:
        """Keep what a file was found to be, and say so; False where it is too new for that.

        `now`: unix seconds, from before its stat was taken.
        """
        settled = max(identity[2:]) < (now - _SETTLED_S) * 1e9
        if settled:
            with self._lock:
                self._loaded()[path.decode("utf-8", "surrogateescape")] = [digest, *identity]
                self._unsaved += 1
                self._unsaved_bytes += identity[0]
        return settled

    def walked(self, folder: bytes, seen: set[bytes]) -> None:
        """All files of a folder were asked for: what was not is forgotten.

        Saved are changes of some size only: a few files are hashed again as quickly.
        """
        with self._lock:
            known = self._loaded()
            if len(known) != len(seen):
                self._forget(folder.decode("utf-8", "surrogateescape") + "/", seen, known)
            few = self._unsaved <= len(known) * _UNSAVED_PART
            if self._unsaved and not (few and self._unsaved_bytes <= _UNSAVED_BYTES):
                try:
                    self._save(known)
                except OSError as exc:
                    logger.warning("hashes.unsaved", extra={"why": str(exc)})

    def _forget(self, prefix: str, seen: set[bytes], known: dict[str, list[Any]]) -> None:
        kept = {path.decode("utf-8", "surrogateescape") for path in seen}
        for key in [key for key in known if key.startswith(prefix) and key not in kept]:
            del known[key]
            self.made.pop(os.fsencode(key), None)
            self._unsaved += 1

    def _loaded(self) -> dict[str, list[Any]]:
        """The cache of the file; an empty one where there is none or it is broken."""
        if self._known is None:
            try:
                document = json.loads(self._path.read_bytes())
                self._known = dict(document["files"]) if document["version"] == _VERSION else {}
            except (OSError, ValueError, KeyError, TypeError):
                self._known = {}
        return self._known

    def _save(self, known: dict[str, list[Any]]) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self._path.with_name(self._path.name + ".new")
        fresh.write_text(json.dumps({"version": _VERSION, "files": known}))
        fresh.replace(self._path)
        self._unsaved = self._unsaved_bytes = 0
