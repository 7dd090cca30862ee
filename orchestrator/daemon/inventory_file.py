"""The inventory as the daemon reads it: anew on a change; a bad edit keeps the last good one."""

import logging
from pathlib import Path

from orchestrator.core.errors import InventoryError, UsageError
from orchestrator.core.model import Inventory
from orchestrator.daemon.inventory_reading import read_apart

logger = logging.getLogger(__name__)


class InventoryFile:
    """Looks at the file whenever it is asked, which is cheaper than watching it.

    `kept` is where the last good one is copied to, so that a daemon which starts beside a bad edit
    can show what is running. InventoryError where there never was a good one.
    """

    def __init__(self, path: Path, kept: Path) -> None:
        self._path, self._kept = path, kept
        self._stamp = self._look()
        self.error: str | None = None
        """Why the newest edit is not used, every problem on a line; None where it is."""
        try:
            self._inventory = read_apart(path)
        except InventoryError as exc:
            if not kept.exists():
                raise
            self._inventory = read_apart(path, kept.read_bytes())
            self.error = str(exc)

    def keep(self) -> None:
        """Copy what is read now, once its state folder is there; a full disk ends nothing."""
        if self.error is not None:
            return
        fresh = self._kept.with_suffix(".new")
        try:
            fresh.write_bytes(self._path.read_bytes())
            fresh.replace(self._kept)
        except OSError as exc:
            logger.warning("inventory.not_kept", extra={"why": str(exc)})

    def current(self) -> Inventory:
        """The newest good inventory."""
        stamp = self._look()
        if stamp != self._stamp:
            self._stamp = stamp
            try:
                self._inventory = read_apart(self._path)
                self.error = None
                logger.info("inventory.read", extra={"digest": self._inventory.digest})
                self.keep()
            except (UsageError, OSError) as exc:
                self.error = str(exc)
                logger.warning("inventory.refused", extra={"problems": self.error})
        return self._inventory

    def checked(self) -> Inventory:
        """The newest good inventory; raises what is wrong with the file, if something is."""
        inventory = self.current()
        if self.error is not None:
            return read_apart(self._path)
        return inventory

    def _look(self) -> tuple[int, int] | None:
        try:
            status = self._path.stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size
