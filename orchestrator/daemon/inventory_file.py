"""The inventory as the daemon reads it: anew on a change; a bad edit keeps the last good one."""

import logging
from pathlib import Path

from orchestrator.core.detect.proving import read_rule
from orchestrator.core.errors import InventoryError
from orchestrator.core.inventory import parse_inventory
from orchestrator.core.model import Inventory

logger = logging.getLogger(__name__)


def read_inventory(path: Path) -> Inventory:
    """The inventory in a file; InventoryError with every problem of it."""
    return parse_inventory(
        path.read_bytes(),
        path=str(path),
        folder=str(path.parent),
        exists=lambda folder: Path(folder).is_dir(),
        home=str(Path.home()),
        check_rule=read_rule,
    )


class InventoryFile:
    """Looks at the file whenever it is asked, which is cheaper than watching it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp = self._look()
        self._inventory = read_inventory(path)
        self.error: str | None = None
        """Why the newest edit is not used, every problem on a line; None where it is."""

    def current(self) -> Inventory:
        """The newest good inventory."""
        stamp = self._look()
        if stamp != self._stamp:
            self._stamp = stamp
            try:
                self._inventory = read_inventory(self._path)
                self.error = None
                logger.info("inventory.read", extra={"digest": self._inventory.digest})
            except (InventoryError, OSError) as exc:
                self.error = str(exc)
                logger.warning("inventory.refused", extra={"problems": self.error})
        return self._inventory

    def checked(self) -> Inventory:
        """The newest good inventory; raises what is wrong with the file, if something is."""
        inventory = self.current()
        if self.error is not None:
            return read_inventory(self._path)
        return inventory

    def _look(self) -> tuple[int, int] | None:
        try:
            status = self._path.stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size
