"""Who is who among the processes of containers and runs, remembered for a while after they end.

A kernel line names a PID that is often gone before anybody can look it up. Owns the table; each
process is looked at once, and a round without new ones costs one listing of /proc.
"""

import os
import threading
import time
from typing import NamedTuple

from . import join
from .frames import Frame

EVERY_S = 2.0
REMEMBER_S = 120.0
NOBODY: Frame = {"container": None, "container_pid": None, "run": None, "run_dir": None}


class _Seen(NamedTuple):
    frame: Frame
    at: float


def identity(pid: int) -> Frame:
    """Container, PID in it, run and run's folder of a PID that is there; None as unknown."""
    place, belongs = join.place_of(pid), join.run_of(pid)
    inside = join.pid_inside(pid)
    return {
        "container": place.container,
        "container_pid": inside,
        "run": belongs.run,
        "run_dir": belongs.directory,
    }


class Census:
    """Looks around every two seconds from `begin` to `end`; asked from any thread."""

    def __init__(self) -> None:
        self._known: dict[int, _Seen] = {}
        self._over = threading.Event()

    def begin(self) -> None:
        """Look around from now on, in a thread of its own."""
        self.end()
        self._over = threading.Event()
        threading.Thread(target=self._go, args=(self._over,), daemon=True).start()

    def end(self) -> None:
        """Look around no more; what is known stays known."""
        self._over.set()

    def whose(self, pid: int) -> Frame:
        """What is known of a PID, which may be gone."""
        found = identity(pid)
        known = self._known.get(pid)
        return known.frame if found == NOBODY and known is not None else found

    def look(self) -> None:
        """One round."""
        now = time.monotonic()
        known = {pid: seen for pid, seen in self._known.items() if now - seen.at < REMEMBER_S}
        for name in os.listdir("/proc"):
            if name.isdigit():
                pid = int(name)
                seen = known.get(pid)
                known[pid] = _Seen(identity(pid) if seen is None else seen.frame, now)
        self._known = known

    def _go(self, over: threading.Event) -> None:
        while not over.wait(EVERY_S):
            self.look()
