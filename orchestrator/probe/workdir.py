"""A job's working folder on the target: where releases lie, which is current, what is left over.

Owns the names and the locks. A lock is the kernel's (flock): it ends with the process that holds
it, so that whatever a killed deploy left is known by being unlocked, and is removed by the next.
Stdlib only and Python 3.10.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import time
from typing import TYPE_CHECKING

from . import files
from .errors import OpError

if TYPE_CHECKING:
    from collections.abc import Iterator

_INCOMING = ".incoming-"
TRASH = ".trash-"
SPARE = ".spare-"
_NEXT = ".next-"
RECORD = "release.json"
_TURN_S = 10.0


class Workdir:
    """The paths of one working folder; makes and removes nothing by itself."""

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)
        self.releases = os.path.join(self.path, "releases")
        self.shared = os.path.join(self.path, "shared")
        self.environments = os.path.join(self.path, "env")

    def release(self, digest: str) -> str:
        """Folder of a release."""
        if not digest or "/" in digest or digest.startswith("."):
            raise OpError("UsageError", f"{digest!r} is no name of a release.")
        return os.path.join(self.releases, digest)

    def incoming(self, digest: str) -> str:
        """Folder in which a release is gathered until it is whole."""
        return os.path.join(self.releases, _INCOMING + digest)

    def current(self) -> str | None:
        """Digest of the release that `current` points at."""
        try:
            folder, _, digest = os.readlink(os.path.join(self.path, "current")).rpartition("/")
        except OSError:
            return None
        return digest if folder == "releases" else None

    def unchanged(self) -> str:
        """What a deploy that came to nothing left: the release that was current, or none."""
        if self.current() is None:
            return "there is no `current` yet"
        return "`current` is what it was"

    def switch(self, digest: str) -> None:
        """Point `current` at a release, by one rename."""
        fresh = os.path.join(self.releases, f"{_NEXT}{os.getpid()}")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(fresh)
        os.symlink(f"releases/{digest}", fresh)
        os.rename(fresh, os.path.join(self.path, "current"))
        sync_folder(self.path)

    def digests(self) -> list[str]:
        """All release folders, whole or not."""
        try:
            names = os.listdir(self.releases)
        except FileNotFoundError:
            return []
        return sorted(name for name in names if not name.startswith("."))

    def record(self, digest: str) -> dict[str, object] | None:
        """What is kept beside a release that was deployed whole; None for any other."""
        return files.read_record(os.path.join(self.release(digest), RECORD))

    def discard(self, path: str) -> None:
        """Remove a folder so that at no instant half of it stands under its name."""
        folder, name = os.path.split(path)
        trash = os.path.join(folder, f"{TRASH}{name}-{os.getpid()}")
        _remove(trash)
        os.rename(path, trash)
        _remove(trash)

    @contextlib.contextmanager
    def exclusively(self) -> Iterator[None]:
        """Only one at a time builds, switches or prunes; OpError where another does not end."""
        os.makedirs(self.releases, exist_ok=True)
        fd = os.open(os.path.join(self.releases, ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
        try:
            deadline = time.monotonic() + _TURN_S
            while not is_locked(fd):
                if time.monotonic() > deadline:
                    raise OpError(
                        "DeployError",
                        f"another deploy, rollback or prune is at work in {self.path}.",
                        "Try again when it has ended.",
                    )
                time.sleep(0.05)
            yield
        finally:
            os.close(fd)

    def clean(self, keep: str | None = None) -> None:
        """Remove what killed deploys left, but not of release `keep`; call while holding the turn.

        A release folder without its record was never switched to, and so nobody runs in it.
        """
        for folder in (self.releases, self.environments):
            with contextlib.suppress(FileNotFoundError):
                for name in os.listdir(folder):
                    if name.startswith(SPARE) and name != f"{SPARE}{self.current()}":
                        self.discard(os.path.join(folder, name))
                    _clean_one(os.path.join(folder, name), name)
        for digest in self.digests():
            if digest not in (keep, self.current()) and self.record(digest) is None:
                self.discard(self.release(digest))


def _remove(path: str) -> None:
    """Remove a folder; a file or a link too, which somebody put in the place of one."""
    if os.path.islink(path) or os.path.isfile(path):
        with contextlib.suppress(OSError):
            os.unlink(path)
    else:
        shutil.rmtree(path, ignore_errors=True)


def _clean_one(path: str, name: str) -> None:
    if name.startswith(TRASH):
        _remove(path)
    elif name.startswith(_NEXT):
        with contextlib.suppress(OSError):
            os.unlink(path)
    elif name.startswith(_INCOMING):
        fd = open_lock(path)
        if fd is None:
            return
        try:
            if is_locked(fd):
                shutil.rmtree(path, ignore_errors=True)
        finally:
            os.close(fd)


def open_lock(folder: str) -> int | None:
    """A descriptor of the lock in a folder; None where there is no such folder."""
    try:
        return os.open(os.path.join(folder, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        return None


def is_locked(fd: int) -> bool:
    """Take the lock if nobody has it; whether it is ours."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def sync_folder(path: str) -> None:
    """Make the names in a folder durable."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
