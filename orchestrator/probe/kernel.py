"""The kernel log: lines that may explain the end of a run, as the kernel prints them.

Owns the reading of /dev/kmsg and the sieve. What a line means is the daemon's to say; only the
PID in it is looked up here and at once, since whom it names is often dying.
"""

import os
import re
import selectors
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from . import join
from .census import NOBODY, Census
from .engines import name_of
from .errors import Refused
from .frames import Frame
from .names import KERNEL_LOG
from .ops import Progress

RECORD_BYTES = 8192
MOST_RECORDS = 1_000_000
MOST_LINES = 2000
FRESH_S = 10.0
"""The PID of an older line may be somebody else's by now."""

_OF_INTEREST = re.compile(
    r"NVRM|nvidia|NVLink|Xid|oom[-_]kill|out of memory|killed process|segfault|general protection"
    r"|trap invalid opcode|blocked for more than|soft lockup|hard lockup|mce:|machine check"
    r"|AER:|I/O error|EXT4-fs error|XFS .*error|BTRFS.*error|nvme.*(?:timeout|reset|error)"
    r"|no space left|fallen off the bus|^memory: usage \d+kB, limit",
    re.IGNORECASE,
)
_PID = re.compile(
    r"\bpid='?(\d+)|[Kk]ill(?:ed)? process (\d+) "
    r"|\[(\d+)\]:? (?:segfault at|general protection|trap )"
    r"|task .{1,20}:(\d+) blocked for more than"
)
_GROUP = re.compile(r"\btask_memcg=([^,]+)")


_census = Census()


class Record(NamedTuple):
    """One record of /dev/kmsg."""

    seq: int
    """Its number since boot."""
    booted_s: float
    """Seconds since boot, by a clock of the kernel's own that drifts from ours."""
    text: str


def parse_record(record: str) -> Record | None:
    """The record in a text of /dev/kmsg; None where it is none.

    `4,1203,5501234567,-;NVRM: Xid …` and then lines of dictionary, each behind a blank.
    """
    head, separator, rest = record.partition(";")
    fields = head.split(",")
    if not separator or len(fields) < 3 or not (fields[1].isdigit() and fields[2].isdigit()):
        return None
    return Record(int(fields[1]), int(fields[2]) / 1e6, rest.split("\n")[0])


def frame_of(record: Record, since: float, after: int) -> Frame | None:
    """The `kernel` frame of a record; None where it is old, seen or of no interest."""
    if record.seq <= after or not _OF_INTEREST.search(record.text):
        return None
    # The kernel's stamps do not count the time that a machine slept.
    age_s = time.clock_gettime(time.CLOCK_MONOTONIC) - record.booted_s
    at = time.time() - age_s
    if at < since:
        return None
    return {
        "kind": "kernel",
        "t": at,
        "seq": record.seq,
        "line": record.text,
        **_whom(record.text, fresh=age_s < FRESH_S),
    }


def _whom(text: str, *, fresh: bool) -> Frame:
    """Of the process that a line names: its container, its PID there, its run; None as unknown."""
    found = NOBODY
    if fresh and (match := _PID.search(text)):
        found = _census.whose(int(next(filter(None, match.groups()))))
    if found["container"] is None and (match := _GROUP.search(text)):
        container = join.container_of(match[1])
        found = {**found, "container": name_of(container) if container is not None else None}
    return found


def _open() -> int:
    try:
        fd = os.open(KERNEL_LOG, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as exc:
        raise _unreadable(exc) from exc
    try:
        _read_one(fd)
    except BrokenPipeError:
        # It can be read; the oldest record was overwritten just now.
        pass
    except OSError as exc:
        os.close(fd)
        raise _unreadable(exc) from exc
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _unreadable(exc: OSError) -> Refused:
    return Refused(
        f"{KERNEL_LOG} cannot be read here: {exc.strerror}.",
        remedy="Let orch reach the host itself, as root, to see Xid and OOM kills.",
    )


def _read_one(fd: int) -> str | None:
    try:
        return os.read(fd, RECORD_BYTES).decode("utf-8", "replace")
    except BlockingIOError:
        return None


def _records(fd: int, most: int) -> Iterator[Record]:
    """The next records, at most so many; OSError where the log is gone."""
    for _ in range(most):
        try:
            text = _read_one(fd)
        except BrokenPipeError:
            # Records were overwritten before they were read; it goes on with the oldest.
            continue
        if text is None:
            return
        record = parse_record(text)
        if record is not None:
            yield record


class KernelLog:
    """Sends a `kernel` frame for each line of interest once `follow` was called."""

    def __init__(self, selector: selectors.BaseSelector, send: Callable[[Frame], None]) -> None:
        self._selector = selector
        self._send = send
        self._fd = -1
        self._since = 0.0
        self._after = -1

    def follow(self, args: Frame) -> None:
        """From unix time `since` and behind record `after` on; what the ring still has, at once.

        Refused where the log may not be read, as in most containers.
        """
        self.stop()
        self._fd = _open()
        self._since, self._after = _start(args)
        _census.begin()
        self._selector.register(self._fd, selectors.EVENT_READ, self._read)

    def stop(self) -> None:
        """Let go of the log."""
        _census.end()
        if self._fd >= 0:
            if self._fd in self._selector.get_map():
                self._selector.unregister(self._fd)
            os.close(self._fd)
            self._fd = -1

    def _read(self) -> None:
        """Some records; the rest in the next round, so that a storm does not hold the loop."""
        try:
            for record in _records(self._fd, 256):
                frame = frame_of(record, self._since, self._after)
                if frame is not None:
                    self._send(frame)
        except OSError:
            self.stop()


def _start(args: Frame) -> tuple[float, int]:
    after = args.get("after")
    return float(args.get("since") or time.time()), -1 if after is None else int(after)


def kernel_lines(args: Frame, _progress: Progress) -> Frame:
    """All lines of interest that are in the ring now, as frames: for when something has ended."""
    since, after = _start(args)
    fd = _open()
    try:
        frames = (frame_of(record, since, after) for record in _records(fd, MOST_RECORDS))
        return {"lines": [frame for frame in frames if frame is not None][-MOST_LINES:]}
    finally:
        os.close(fd)


OPS = {"kernel_lines": kernel_lines}
