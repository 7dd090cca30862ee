"""Which daemon may act here, where several share a fleet: the largest token that was ever seen.

Owns a file beside the probe, one for each fleet, that outlives probes and reboots. The token is
the upper part of a probe's generation; 0 is a daemon that shares its fleet with nobody.
"""

import fcntl
import os
import sys

from .errors import OpError
from .files import read_record, write_record
from .frames import TOKEN_SHIFT
from .opening import open_file


class Fenced(OpError):
    """A daemon that took the host over has been here."""

    def __init__(self, token: int, newer: int) -> None:
        super().__init__(
            "Fenced",
            f"Another daemon drives this host now (token {newer}; this one came with {token}).",
            "Nothing was done. `orch daemon status` says which daemon it is.",
        )


class Fence:
    """The fence of one probe."""

    def __init__(self, key: str, generation: int, folder: str | None = None) -> None:
        self._token = generation >> TOKEN_SHIFT
        beside = folder or os.path.dirname(os.path.realpath(sys.argv[0]))
        # Every probe of a fleet has a key that begins with the fleet's own.
        self._path = os.path.join(beside, f"{key.partition('.')[0]}.fence")

    def raise_bar(self) -> None:
        """From now on smaller tokens are refused; Fenced where ours is one."""
        if not self._token:
            return
        lock = open_file(f"{self._path}.lock", os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.check()
            if self._seen() < self._token:
                write_record(self._path, {"token": self._token})
        finally:
            os.close(lock)

    def check(self) -> None:
        """Fenced where a daemon with a larger token has been here."""
        if self._token and self._seen() > self._token:
            raise Fenced(self._token, self._seen())

    def _seen(self) -> int:
        record = read_record(self._path)
        return int(record["token"]) if record else 0
