"""Which deploy is sending a release into a working folder: one at a time, also of two processes.

Owns the incoming folder from the first claim until it is given up. Says nothing of what is put
there. Stdlib only and Python 3.10.
"""

from __future__ import annotations

import os
import shutil
import threading
import time

from .errors import OpError
from .workdir import Workdir, is_locked, open_lock

_SAME_RELEASE_S = 50.0
"""How long a deploy waits for another of the same release into the same folder."""
_REMOVALS = 100


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


def why_given_up(workdir: Workdir, digest: str, deploy: int) -> OpError | None:
    """Why a deploy was given up; None where it was not."""
    return _given_up.get((workdir.incoming(digest), deploy))


def _take(path: str) -> int:
    os.makedirs(os.path.join(path, "blobs"), exist_ok=True)
    fd = open_lock(path)
    if fd is not None and is_locked(fd) and _is_still(fd, path):
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
