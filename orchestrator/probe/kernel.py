"""Follows the kernel log: lines that may explain the end of a run, as the kernel prints them.

Owns the reading of /dev/kmsg and the sieve. What a line means is the daemon's to say.
"""

import os
import re
import selectors
import time
from collections.abc import Callable

from .errors import Refused
from .frames import Frame

DEVICE = "/dev/kmsg"
RECORD_BYTES = 8192

_OF_INTEREST = re.compile(
    r"NVRM|nvidia|NVLink|Xid|oom[-_]kill|out of memory|killed process|segfault|general protection"
    r"|trap invalid opcode|blocked for more than|soft lockup|hard lockup|mce:|machine check"
    r"|AER:|I/O error|EXT4-fs error|XFS .*error|BTRFS.*error|nvme.*(?:timeout|reset|error)"
    r"|no space left|fallen off the bus",
    re.IGNORECASE,
)


def parse_record(record: str) -> tuple[float, str] | None:
    """Seconds since boot and text of a record of /dev/kmsg; None where it is none.

    `4,1203,5501234567,-;NVRM: Xid …` and then lines of dictionary, each behind a blank.
    """
    head, separator, rest = record.partition(";")
    fields = head.split(",")
    if not separator or len(fields) < 3 or not fields[2].isdigit():
        return None
    return int(fields[2]) / 1e6, rest.split("\n")[0]


class KernelLog:
    """Sends a `kernel` frame for each line of interest once `follow` was called."""

    def __init__(self, selector: selectors.BaseSelector, send: Callable[[Frame], None]) -> None:
        self._selector = selector
        self._send = send
        self._fd = -1
        self._since = 0.0

    def follow(self, since: float) -> None:
        """From unix time `since` on; lines of before that are still in the ring come at once.

        Refused where the log may not be read, as in most containers.
        """
        self.stop()
        try:
            self._fd = os.open(DEVICE, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            self._read_one()
        except OSError as exc:
            self.stop()
            raise Refused(
                f"{DEVICE} cannot be read here: {exc.strerror}.",
                remedy="Let orch reach the host itself, as root, to see Xid and OOM kills.",
            ) from exc
        self._since = since
        os.lseek(self._fd, 0, os.SEEK_SET)
        self._selector.register(self._fd, selectors.EVENT_READ, self._read)

    def stop(self) -> None:
        """Let go of the log."""
        if self._fd >= 0:
            if self._fd in self._selector.get_map():
                self._selector.unregister(self._fd)
            os.close(self._fd)
            self._fd = -1

    def _read(self) -> None:
        """Some records; the rest in the next round, so that a storm does not hold the loop."""
        # The kernel's stamps do not count the time that a machine slept.
        booted_at = time.time() - time.clock_gettime(time.CLOCK_MONOTONIC)
        for _ in range(256):
            try:
                record = self._read_one()
            except BrokenPipeError:
                # Records were overwritten before they were read; it goes on with the oldest.
                continue
            except OSError:
                self.stop()
                return
            if record is None:
                return
            parsed = parse_record(record)
            if parsed is not None:
                at = booted_at + parsed[0]
                if at >= self._since and _OF_INTEREST.search(parsed[1]):
                    self._send({"kind": "kernel", "t": at, "line": parsed[1]})

    def _read_one(self) -> str | None:
        try:
            return os.read(self._fd, RECORD_BYTES).decode("utf-8", "replace")
        except BlockingIOError:
            return None
