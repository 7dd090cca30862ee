"""One probe for each key: the newest generation evicts the older ones, never the other way."""

import fcntl
import json
import os
import signal
import stat
import time

from . import procfs
from .errors import BadCall, Refused
from .files import read_record
from .opening import open_file

EVICT_WITHIN_S = 10.0
TERM_FIRST_S = 2.0


class Superseded(Refused):
    """A probe of a newer generation serves this key."""


def take(key: str, generation: int) -> int:
    """Become the only probe of `key` and return the lock's descriptor.

    Superseded where a newer generation holds it, BadCall where the key is no file name.
    """
    if not key or not all(char.isalnum() or char in "-_." for char in key) or key[0] == ".":
        raise BadCall(f"The key {key!r} is not made of letters, digits, `-`, `_` and `.`.")
    path = os.path.join(own_folder(), f"{key}.lock")
    fd = open_file(path, os.O_RDWR | os.O_CREAT)
    begun = time.monotonic()
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            waited = time.monotonic() - begun
            if waited > EVICT_WITHIN_S:
                raise Superseded(f"The older probe of {key} does not end.") from None
            _evict(path, key, generation, hard=waited > TERM_FIRST_S)
            time.sleep(0.02)
    holder = {
        "pid": os.getpid(),
        "start": procfs.start_time(os.getpid()),
        "generation": generation,
    }
    os.ftruncate(fd, 0)
    os.pwrite(fd, json.dumps(holder).encode(), 0)
    return fd


def own_folder() -> str:
    """A folder that only this user can write to, whoever else may write to its parent."""
    path = f"/tmp/orch-{os.getuid()}"  # noqa: S108  owner and mode are checked below
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        pass
    status = os.lstat(path)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o022:
        raise BadCall(f"{path} is not a folder of this user alone.", remedy=f"Remove {path}.")
    return path


def _evict(path: str, key: str, generation: int, *, hard: bool) -> None:
    holder = read_record(path)
    if holder is None:
        # It has the lock and has not written who it is yet.
        return
    if holder["generation"] > generation:
        raise Superseded(
            f"A probe of generation {holder['generation']} serves {key}; this one is {generation}."
        )
    pid = int(holder["pid"])
    ours = key in procfs.command_line(pid).split()
    if ours and pid != os.getpid() and procfs.lives(pid, int(holder["start"])):
        try:
            os.kill(pid, signal.SIGKILL if hard else signal.SIGTERM)
        except ProcessLookupError:
            pass
