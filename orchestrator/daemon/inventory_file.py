"""The inventory as the daemon reads it: anew on a change; a bad edit keeps the last good one."""

import asyncio
import logging
import os
from pathlib import Path

from orchestrator.core.errors import InventoryError, UsageError
from orchestrator.core.model import Inventory
from orchestrator.daemon.inventory_reading import read_apart, read_content

logger = logging.getLogger(__name__)


class InventoryFile:
    """Looks at the file whenever it is told to, which is cheaper than watching it.

    `kept` is where the last good one is copied to, so that a daemon which starts beside a bad edit
    can show what is running. InventoryError where there never was a good one.
    """

    def __init__(self, path: Path, kept: Path) -> None:
        self._path, self._kept = path, kept
        self._stamp = self._look()
        self._refusal: UsageError | None = None
        self._reading = asyncio.Lock()
        self._content = read_content(path)
        """What the inventory was made of; the file may be another one by now."""
        try:
            self._inventory = read_apart(path, self._content)
        except InventoryError as exc:
            self._inventory = _last_good(path, kept, exc)
            self._refusal = exc

    @property
    def error(self) -> str | None:
        """Why the newest edit is not used, every problem on a line; None where it is."""
        return None if self._refusal is None else str(self._refusal)

    def keep(self) -> None:
        """Keep what is read now, once its state folder is there; a full disk ends nothing."""
        if self._refusal is not None:
            return
        fresh = self._kept.with_suffix(".new")
        try:
            with fresh.open("wb") as stream:
                stream.write(self._content)
                stream.flush()
                os.fsync(stream.fileno())
            fresh.replace(self._kept)
        except OSError as exc:
            logger.warning("inventory.not_kept", extra={"why": str(exc)})

    async def refresh(self, *, again: bool = False) -> None:
        """Read the file where it was edited; `again` also where the newest edit is refused.

        A folder that it names may be there by now. What reads it is not this loop, which it would
        hold for a third of a second.
        """
        if not self._is_due(again):
            return
        async with self._reading:
            if self._is_due(again):
                await self._read()

    def current(self) -> Inventory:
        """The newest good inventory, as of the last `refresh`."""
        return self._inventory

    def checked(self) -> Inventory:
        """The newest good inventory; raises what is wrong with the file, if something is."""
        if self._refusal is not None:
            raise self._refusal.with_traceback(None)
        return self._inventory

    def _is_due(self, again: bool) -> bool:
        return self._look() != self._stamp or (again and self._refusal is not None)

    async def _read(self) -> None:
        stamp = self._look()
        try:
            content = await asyncio.to_thread(read_content, self._path)
            self._inventory = await asyncio.to_thread(read_apart, self._path, content)
        except UsageError as exc:
            if str(exc) != self.error:
                logger.warning("inventory.refused", extra={"problems": str(exc)})
            self._refusal = exc
        else:
            self._refusal, self._content = None, content
            logger.info("inventory.read", extra={"digest": self._inventory.digest})
            await asyncio.to_thread(self.keep)
        self._stamp = stamp

    def _look(self) -> tuple[int, int] | None:
        try:
            status = self._path.stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size


def _last_good(path: Path, kept: Path, refusal: InventoryError) -> Inventory:
    """What was kept; the refusal itself where that is nothing, or of no use.

    An older orch may have taken it by fewer rules: who acts is told of them, by the refusal, and
    what runs is watched and can be stopped.
    """
    try:
        return read_apart(path, kept.read_bytes(), taken_before=True)
    except (OSError, UsageError):
        raise refusal from None
