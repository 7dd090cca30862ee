"""Whether the files that the daemon stands on are still those that it opened.

Owns the look at them and what follows where they were removed or replaced: the daemon says so,
takes no new command, and ends, so that the next command starts one that asks the targets.
"""

import asyncio
import logging
from collections.abc import Iterable
from pathlib import Path

from orchestrator.clock import Clock
from orchestrator.core.errors import DaemonError

LOOK_EVERY_S = 3.0

logger = logging.getLogger(__name__)


class Footing:
    """The files as they were when this was made; `ending` is set once one of them is another."""

    def __init__(self, files: Iterable[Path], clock: Clock, ending: asyncio.Event) -> None:
        self._clock, self._ending = clock, ending
        self._known = {path: _identity(path) for path in files}

    async def run(self) -> None:
        """Look now and then, until it is lost."""
        while not self.is_lost():
            await self._clock.rest(LOOK_EVERY_S)

    def is_lost(self) -> bool:
        """Whether a file is gone or another one; the daemon ends then."""
        gone = [path for path, known in self._known.items() if _is_other(path, known)]
        if gone and not self._ending.is_set():
            logger.critical("state.lost", extra={"files": [str(path) for path in gone]})
            self._ending.set()
        return bool(gone)

    def require(self) -> None:
        """DaemonError where it is lost."""
        if self.is_lost():
            names = " and ".join(str(path) for path in self._known)
            raise DaemonError(
                f"{names} were removed or replaced under the daemon, which ends now; nothing was "
                "done. Runs go on.",
                remedy="Run the command again: a new daemon starts, and asks the targets for the "
                "runs that the state folder still names.",
            )


def _is_other(path: Path, known: tuple[int, int] | None) -> bool:
    try:
        return _identity(path) != known
    except OSError:
        return False  # a disk or a network that fails for now says nothing


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_dev, found.st_ino
