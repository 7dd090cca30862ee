"""Hashes of files, kept between deploys, so that only what changed is read again.

Owns the cache file. A file counts as unchanged while size, inode and both time stamps are.
"""

import hashlib
import json
import os
from pathlib import Path
from typing import Any, Self

_VERSION = 1
_SETTLED_S = 0.1
"""A file changed more recently may change again within one tick of its time stamp."""


class HashCache:
    """SHA-256 by path and stat; what it does not know it reads."""

    def __init__(self, known: dict[str, list[Any]], now: float) -> None:
        self._known = known
        self._walked: list[str] = []
        self._used: dict[str, list[Any]] = {}
        self._settled_before_ns = int((now - _SETTLED_S) * 1e9)

    @classmethod
    def load(cls, path: Path, now: float) -> Self:
        """The cache of a file; an empty one where there is none or it is broken."""
        try:
            document = json.loads(path.read_bytes())
            known = document["files"] if document["version"] == _VERSION else {}
        except (OSError, ValueError, KeyError, TypeError):
            known = {}
        return cls(known, now)

    def walks(self, folder: bytes) -> None:
        """All files of a folder are asked for from here on: what is not is forgotten."""
        self._walked.append(folder.decode("utf-8", "surrogateescape") + "/")

    def of(self, path: bytes, stat: os.stat_result) -> str:
        """SHA-256 of a file, hex; OSError where it cannot be read."""
        key = path.decode("utf-8", "surrogateescape")
        identity = [stat.st_size, stat.st_ino, stat.st_mtime_ns, stat.st_ctime_ns]
        row = self._known.get(key)
        if row is not None and row[1:] == identity:
            digest = str(row[0])
        else:
            with open(path, "rb") as file:  # noqa: PTH123  a bytes path
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        if max(stat.st_mtime_ns, stat.st_ctime_ns) < self._settled_before_ns:
            self._used[key] = [digest, *identity]
        return digest

    def save(self, path: Path) -> None:
        """Keep what this walk used; does nothing where that is what was kept already."""
        walked = tuple(self._walked)
        others = {key: row for key, row in self._known.items() if not key.startswith(walked)}
        files = others | self._used
        if files == self._known:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_name(path.name + ".new")
        fresh.write_text(json.dumps({"version": _VERSION, "files": files}))
        fresh.replace(path)
