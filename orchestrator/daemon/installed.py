"""Whether the files that this daemon was started from are still those on the disk.

It looks at the files' times alone, and seldom. It must not load anything anew.
"""

import contextlib
import os
from pathlib import Path

from orchestrator.clock import Clock

LOOK_EVERY_S = 5.0


class InstalledCode:
    """The package's files as they were when the daemon began."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder, self._clock = folder, clock
        self._begun_with = self._look()
        self._outdated, self._looked_at = False, clock.monotonic()

    def outdated(self) -> bool:
        """Whether a file has changed since, so that the daemon runs older code than is there."""
        now = self._clock.monotonic()
        if now - self._looked_at >= LOOK_EVERY_S:
            self._outdated, self._looked_at = self._look() != self._begun_with, now
        return self._outdated

    def _look(self) -> tuple[int, int]:
        """How many files there are, and the newest time of one; every command waits for this."""
        times: list[int] = []
        folders = [str(self._folder)]
        while folders:
            with contextlib.suppress(FileNotFoundError), os.scandir(folders.pop()) as listing:
                for entry in listing:
                    if entry.name.endswith(".py"):
                        with contextlib.suppress(FileNotFoundError):
                            times.append(entry.stat().st_mtime_ns)
                    elif entry.name != "__pycache__" and entry.is_dir():
                        folders.append(entry.path)
        return len(times), max(times, default=0)
