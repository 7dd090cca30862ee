"""The exit record: how an attempt ended, written once by its relay.

Owns the record's fields and the room that is kept for it on the disk. Says nothing of why it ended.
"""

import os
import signal

from . import procfs
from .files import reserve, write_reserved
from .logfile import LogFile
from .memory import own_group
from .names import EXIT_FILE
from .orphans import MOST as MOST_ORPHANS


class ExitRecord:
    """Make it before the program starts: OSError where there is no room for the record."""

    def __init__(self, directory: str) -> None:
        self._path = os.path.join(directory, EXIT_FILE)
        self._reserved = reserve(self._path)
        self._memory = own_group()
        self._oom_kills = self._memory.oom_kills

    def write(
        self, status: int, *, started_at: float, ended_at: float, log: LogFile, awaited: bool
    ) -> dict[str, object]:
        """Write it, and give it back; `status` as waitstatus_to_exitcode has it."""
        record: dict[str, object] = {
            "code": status if status >= 0 else None,
            "signal": -status if status < 0 else None,
            "started_at": started_at,
            "ended_at": ended_at,
            "boot_id": procfs.boot_id(),
            "log_bytes": log.size,
            "dropped_bytes": log.dropped_bytes,
            "oom_kills": self._killed_for_memory(),
            "memory_limit_bytes": self._memory.limit_bytes,
            "orphans": procfs.children(os.getpid())[:MOST_ORPHANS],
            "awaited": awaited,
        }
        write_reserved(self._reserved, self._path, record)
        return record

    def _killed_for_memory(self) -> int | None:
        """How many processes beside or below us the kernel has killed for memory meanwhile."""
        before, now = self._oom_kills, self._memory.oom_kills
        return None if before is None or now is None else now - before


def end_words(status: int) -> str:
    """How a program ended, as its pane says it."""
    return f"exit code {status}" if status >= 0 else f"signal {-status} ({_name(-status)})"


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"
