"""A job's working folder on the target: where releases lie, who may change them, what is left over.

Owns the names and the locks. A lock is the kernel's (flock): it ends with the process that holds
it, so that whatever a killed deploy left is known by being unlocked, and is removed by the next.
Stdlib only and Python 3.10.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import os
import shutil
import threading
import time
from typing import TYPE_CHECKING

from . import files
from . import manifest as wire
from .errors import OpError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    Args = dict[str, Any]
    Progress = Callable[[Args], None]
    Op = Callable[[Args, Progress], Args]

_INCOMING = ".incoming-"
TRASH = ".trash-"
SPARE = ".spare-"
_NEXT = ".next-"
RECORD = "release.json"
_TURN_S = 10.0
_SAME_RELEASE_S = 50.0
"""How long a deploy waits for another of the same release into the same folder."""
_REMOVALS = 100


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
        shutil.rmtree(trash, ignore_errors=True)
        os.rename(path, trash)
        shutil.rmtree(trash, ignore_errors=True)

    @contextlib.contextmanager
    def exclusively(self) -> Iterator[None]:
        """Only one at a time builds, switches or prunes; OpError where another does not end."""
        os.makedirs(self.releases, exist_ok=True)
        fd = os.open(os.path.join(self.releases, ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
        try:
            deadline = time.monotonic() + _TURN_S
            while not _locked(fd):
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


def _clean_one(path: str, name: str) -> None:
    if name.startswith(TRASH):
        shutil.rmtree(path, ignore_errors=True)
    elif name.startswith(_NEXT):
        with contextlib.suppress(OSError):
            os.unlink(path)
    elif name.startswith(_INCOMING):
        fd = _open_lock(path)
        if fd is None:
            return
        try:
            if _locked(fd):
                shutil.rmtree(path, ignore_errors=True)
        finally:
            os.close(fd)


class _Busy(OpError):
    """Another probe is sending this very release."""


# What this process is deploying: incoming folder -> the lock on it, and the deploy that it is for.
_claims: dict[str, tuple[int, int]] = {}
# Deploys that were given up, and why: what of theirs is still on its way makes no folder anew.
_given_up: dict[tuple[str, int], OpError] = {}
_guard = threading.Lock()


def claim(workdir: Workdir, digest: str, deploy: int) -> str:
    """The incoming folder of a release, made and held by this process until it is given up.

    What killed deploys left in the working folder is removed first. `deploy` is the daemon's
    number of the deploy that asks.
    """
    deadline = time.monotonic() + _SAME_RELEASE_S
    while True:
        try:
            with _guard:
                return _claimed(workdir, digest, deploy)
        except _Busy:
            # Two jobs or targets may share this folder, and be deployed to side by side.
            if time.monotonic() > deadline:
                raise
        time.sleep(0.05)


def _claimed(workdir: Workdir, digest: str, deploy: int) -> str:
    """One try of `claim`; _Busy where another deploy has the folder, in this process or not."""
    path = workdir.incoming(digest)
    if (path, deploy) in _given_up:
        raise _given_up[path, deploy]
    if path in _claims and os.path.isdir(path):
        if _claims[path][1] != deploy:
            raise _busy(path)
        return path
    _let_go(path)
    with workdir.exclusively():
        _claims[path] = (_take(path), deploy)
        workdir.clean(keep=digest)
    return path


def give_up(workdir: Workdir, digest: str, deploy: int, why: OpError | None = None) -> None:
    """Remove the incoming folder of a release and let go of it: it was committed or failed.

    Whatever else is asked for this deploy fails with `why`.
    """
    path = workdir.incoming(digest)
    why = why or OpError("DeployError", f"this deploy of {digest} was given up.")
    with _guard:
        _given_up.setdefault((path, deploy), why)
        if path in _claims and _claims[path][1] == deploy:
            # Threads that are writing there still may make a file each meanwhile.
            for _ in range(_REMOVALS):
                shutil.rmtree(path, ignore_errors=True)
                if not os.path.isdir(path):
                    break
            _let_go(path)


def _failed(workdir: Workdir, args: Args, exc: OSError) -> OpError:
    """What the system refused, as a sentence; why the deploy was given up, where it was."""
    refused = _refused(workdir, exc)
    if "deploy" not in args:
        return refused
    digest, deploy = args["digest"], args["deploy"]
    if exc.errno in (errno.ENOSPC, errno.EDQUOT):
        give_up(workdir, digest, deploy, refused)
    return _given_up.get((workdir.incoming(digest), deploy), refused)


def _take(path: str) -> int:
    os.makedirs(os.path.join(path, "blobs"), exist_ok=True)
    fd = _open_lock(path)
    if fd is not None and _locked(fd) and _is_still(fd, path):
        return fd
    if fd is not None:
        os.close(fd)
    raise _busy(path)


def _is_still(fd: int, path: str) -> bool:
    """Whether the lock is the folder's: the deploy that held it may have removed both meanwhile."""
    try:
        named = os.stat(os.path.join(path, "lock"))
    except OSError:
        return False
    return os.path.samestat(os.fstat(fd), named) and os.path.isdir(os.path.join(path, "blobs"))


def _busy(path: str) -> _Busy:
    return _Busy(
        "DeployError",
        f"another deploy of this very release is sending to {path}.",
        "Wait until it has ended, then deploy again.",
    )


def _let_go(path: str) -> None:
    held = _claims.pop(path, None)
    if held is not None:
        os.close(held[0])


def _open_lock(folder: str) -> int | None:
    try:
        return os.open(os.path.join(folder, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        return None


def _locked(fd: int) -> bool:
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


def told(op: Op) -> Op:
    """Turn what the system refuses into a sentence with its remedy."""

    @functools.wraps(op)
    def wrapped(args: Args, progress: Progress) -> Args:
        workdir = Workdir(args["workdir"])
        try:
            return op(args, progress)
        except wire.ManifestError as exc:
            raise OpError("DeployError", f"the deploy was not understood: {exc}.") from exc
        except OSError as exc:
            raise _failed(workdir, args, exc) from exc

    return wrapped


def _refused(workdir: Workdir, exc: OSError) -> OpError:
    where = os.fsdecode(exc.filename) if isinstance(exc.filename, (str, bytes)) else workdir.path
    remedy = {
        errno.ENOSPC: "Free some (`orch prune` removes old releases), then deploy again.",
        errno.EDQUOT: "Raise the quota or free some space, then deploy again.",
        errno.EACCES: "Give the target's user the right to write there, or choose another workdir.",
        errno.EROFS: "Choose a workdir on a file system that can be written.",
    }.get(exc.errno or 0, "Look at the job's `workdir`, or choose another one.")
    return OpError("DeployError", f"{where}: {exc.strerror}; {workdir.unchanged()}.", remedy)
