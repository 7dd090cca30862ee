"""Ops that keep two copies from building the same thing at once.

Owns which places this process copies to. A turn is the kernel's (flock on a file of the user's own
folder): it ends with the process, whatever ended that. Stdlib only and Python 3.10.
"""

import contextlib
import fcntl
import hashlib
import os
import threading

from .errors import OpError
from .frames import Frame
from .lock import own_folder
from .opening import open_file
from .ops import Op, Progress

_held: dict[str, int] = {}
_guard = threading.Lock()


def copy_hold(args: Frame, _progress: Progress) -> Frame:
    """Take the turn of a place; `held` is false where another copy to it is at work."""
    try:
        path = _turn_of(args["path"])
        with _guard:
            return {"held": _take(path)}
    except (OSError, OpError):
        return {"held": True}  # no place for a lock is no reason not to copy


def copy_let_go(args: Frame, _progress: Progress) -> Frame:
    """Give the turn of a place back."""
    with contextlib.suppress(OSError, OpError):
        path = _turn_of(args["path"])
        with _guard:
            fd = _held.pop(path, None)
            if fd is not None:
                try:
                    if _is_still(fd, path):  # or it is the turn of whoever came since
                        os.unlink(path)
                finally:
                    os.close(fd)
    return {}


def _take(path: str) -> bool:
    while True:
        with contextlib.ExitStack() as unless_taken:
            fd = open_file(path, os.O_RDWR | os.O_CREAT)
            unless_taken.callback(os.close, fd)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            if _is_still(fd, path):  # or whoever had it removed it meanwhile
                unless_taken.pop_all()
                _held[path] = fd
                return True


def _turn_of(path: str) -> str:
    """One name of those that lead to the same place."""
    folder, name = os.path.split(os.path.expanduser(path).rstrip("/"))
    place = os.path.join(os.path.realpath(folder or "."), name)
    return os.path.join(own_folder(), f"copy-{hashlib.sha256(os.fsencode(place)).hexdigest()}.lock")


def _is_still(fd: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path))
    except FileNotFoundError:
        return False


OPS: dict[str, Op] = {"copy_hold": copy_hold, "copy_let_go": copy_let_go}
