"""Where the content of files lies until their release is built: by its SHA-256, in sixteen folders.

Thousands of such names in one folder cost ext4 more than the files (docs/decisions/deploy.md).
Stdlib only and Python 3.10: shipped inside the probe.
"""

from __future__ import annotations

import contextlib
import os


def place(folder: bytes, sha: str) -> bytes:
    """The path of a content below the folder of all."""
    name = sha.encode("ascii")
    return b"%b/%b/%b" % (folder, name[:1], name)


def open_to_write(folder: bytes, sha: str) -> int:
    """A descriptor; FileNotFoundError where the folder of all is gone."""
    path, flags = place(folder, sha), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
    try:
        return os.open(path, flags, 0o600)
    except FileNotFoundError:
        with contextlib.suppress(FileExistsError):
            os.mkdir(os.path.dirname(path))
        return os.open(path, flags, 0o600)


def arrived(folder: bytes) -> frozenset[str]:
    """The contents that are there, whole or not."""
    found: list[str] = []
    for part in os.listdir(folder):
        found += map(os.fsdecode, os.listdir(os.path.join(folder, part)))
    return frozenset(found)
