"""Starts and ends the daemon of one inventory: checks, lock, log, signals."""

import asyncio
import fcntl
import logging
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from orchestrator.api.listening import TOKEN_VARIABLE, checked_door
from orchestrator.api.location import Location, locate, write_note
from orchestrator.api.server import Server
from orchestrator.clock import SystemClock
from orchestrator.core.errors import DaemonError
from orchestrator.daemon import logs
from orchestrator.daemon.backend import DaemonBackend
from orchestrator.daemon.inventory_file import InventoryFile
from orchestrator.daemon.parts import Parts

KEPT_INVENTORY = "inventory.good.yaml"

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listen:
    """What `--listen` was told; nothing is listened on beside the socket without it."""

    address: str
    cert: str | None = None
    key: str | None = None


def main(config: str, listen: Listen | None = None) -> int:
    """Run the daemon of an inventory until it is told to end; OrchError where it cannot start."""
    location = locate(Path(config), os.environ)
    inventory = InventoryFile(location.inventory, location.state_folder / KEPT_INVENTORY)
    with _writing(location):
        _make_folders(location)
    with _only_one(location):
        with _writing(location):
            logs.set_up(location.log)
        inventory.keep()
        asyncio.run(_serve(location, inventory, listen))
    return 0


def _make_folders(location: Location) -> None:
    for folder in (location.state_folder, location.socket.parent):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    status = location.socket.parent.stat()
    if status.st_uid != os.getuid():
        raise DaemonError(
            f"The folder {location.socket.parent} of the daemon's socket belongs to somebody else.",
            remedy="Set XDG_RUNTIME_DIR to a folder that is yours.",
        )
    location.socket.parent.chmod(0o700)


@contextmanager
def _writing(location: Location) -> Iterator[None]:
    """A full disk, or a folder that may not be written, is said as such."""
    try:
        yield
    except OSError as exc:
        raise DaemonError(
            f"The daemon could not write to {exc.filename or location.state_folder}: "
            f"{exc.strerror}.",
            remedy="Free space there, or set XDG_STATE_HOME to a folder that you can write to.",
        ) from exc


@contextmanager
def _only_one(location: Location) -> Iterator[None]:
    """Hold the inventory's lock; it goes with our life, however that ends."""
    with _writing(location):
        fd = os.open(location.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as exc:
            raise DaemonError(
                f"A daemon for {location.inventory} is running already.",
                remedy="`orch daemon status` shows it.",
            ) from exc
        with _writing(location):
            write_note(location, os.getpid())
        yield
    finally:
        os.close(fd)


async def _serve(location: Location, inventory: InventoryFile, listen: Listen | None) -> None:
    clock = SystemClock()
    async with Parts.open(location, inventory, clock) as parts:
        backend = DaemonBackend(parts)
        server = Server(backend)
        if listen is not None:
            token = parts.environment.lookup(TOKEN_VARIABLE)
            door = checked_door(listen.address, listen.cert, listen.key, token)
            logger.info("api.listening", extra={"port": await server.listen(door)})
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, backend.ask_to_end)
        await parts.crew.resume()
        await server.start(location.socket)
        logger.info("daemon.started", extra={"inventory": str(location.inventory)})
        try:
            await parts.ending.wait()
        finally:
            logger.info("daemon.ending")
            await server.stop()
            location.socket.unlink(missing_ok=True)
