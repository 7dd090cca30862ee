"""The line-time index of a log: pairs of offset (u64) and unix time (f64), one a second at most.

Owns the form of the file. A pair that a kill or a full disk left by half is no pair.
"""

import errno
import os
import struct
from collections.abc import Iterator
from pathlib import Path

EVERY_S = 1.0

_PAIR = struct.Struct("<Qd")


def opened(path: Path) -> int:
    """A descriptor that appends whole pairs."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        os.ftruncate(fd, os.fstat(fd).st_size // _PAIR.size * _PAIR.size)
    except OSError:
        os.close(fd)
        raise
    return fd


def note(fd: int, offset: int, at: float) -> None:
    """Say that the bytes at `offset` were seen at unix time `at`; OSError where it is not whole."""
    if os.write(fd, _PAIR.pack(offset, at)) != _PAIR.size:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def offset_at(path: Path, at: float, end: int) -> int:
    """The offset of the first bytes that may have been seen then or later; `end` is the log's."""
    known = list(_pairs(path))
    before = [index for index, (_, seen) in enumerate(known) if seen <= at]
    if not before:
        return 0
    offset, seen = known[before[-1]]
    if at - seen < EVERY_S:
        return offset
    # Whatever came later than that second has an entry of its own.
    later = known[before[-1] + 1 :]
    return later[0][0] if later else end


def _pairs(path: Path) -> Iterator[tuple[int, float]]:
    try:
        index = path.read_bytes()
    except FileNotFoundError:
        return
    whole = len(index) - len(index) % _PAIR.size
    for start, seen in _PAIR.iter_unpack(index[:whole]):
        yield int(start), float(seen)
