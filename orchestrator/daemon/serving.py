"""The life of a daemon between its start and its end: the parts, the API, the signals."""

import asyncio
import contextlib
import logging
import os
import signal
from pathlib import Path

from orchestrator.api.listening import TOKEN_VARIABLE, checked_door
from orchestrator.api.location import Location
from orchestrator.api.server import Server
from orchestrator.clock import SystemClock
from orchestrator.daemon.backend import DaemonBackend
from orchestrator.daemon.inventory_file import InventoryFile
from orchestrator.daemon.listen import Listen
from orchestrator.daemon.parts import Parts

logger = logging.getLogger(__name__)


async def serve(location: Location, inventory: InventoryFile, listen: Listen | None) -> None:
    """Until it is told to end."""
    clock = SystemClock()
    async with Parts.open(location, inventory, clock) as parts:
        backend = DaemonBackend(parts)
        server = Server(backend)
        if listen is not None:
            await parts.environment.learn((TOKEN_VARIABLE,))
            token = parts.environment.lookup(TOKEN_VARIABLE)
            door = checked_door(listen.address, listen.cert, listen.key, token)
            logger.info("api.listening", extra={"port": await server.listen(door)})
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, backend.ask_to_end)
        await parts.crew.resume()
        await server.start(location.socket)
        ours = location.socket.stat()
        logger.info("daemon.started", extra={"inventory": str(location.inventory)})
        try:
            await parts.ending.wait()
        finally:
            logger.info("daemon.ending")
            await server.stop()
            _remove(location.socket, ours)


def _remove(socket: Path, ours: os.stat_result) -> None:
    """Of a daemon whose folder was removed under it another one may have the place by now."""
    with contextlib.suppress(FileNotFoundError):
        if os.path.samestat(socket.stat(), ours):
            socket.unlink()
