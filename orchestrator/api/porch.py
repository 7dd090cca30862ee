"""Where strangers stand: TCP connections to the API, before anybody has shown a token.

Owns how many there may be, and how long one may take to begin. A flood of them must not use up the
daemon's descriptors, which it needs for its hosts and its store. Must not: read a request.
"""

import asyncio
import logging
import socket

from aiohttp import web

from orchestrator.api.listening import Door

MOST_CONNECTIONS = 200
BEGINS_WITHIN_S = 10.0
"""A handshake, and then the head of a request; as long an idle connection is kept for another."""
FULL_S = 1.0

logger = logging.getLogger(__name__)


class Porch:
    """Accepts for one web server on the addresses of one door."""

    def __init__(self, server: web.Server, door: Door) -> None:
        self._server, self._door = server, door
        self._tasks: set[asyncio.Task[None]] = set()
        self._listeners: list[socket.socket] = []

    async def open(self) -> int:
        """Listen; the port, also where 0 was asked. OSError where an address is not to be had."""
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(
            self._door.host, self._door.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        for family, *_, address in dict.fromkeys(found):
            listener = socket.create_server(address, family=family, backlog=128)
            listener.setblocking(False)
            self._listeners.append(listener)
            self._keep(asyncio.create_task(self._accept(listener), name="api porch"))
        return int(self._listeners[0].getsockname()[1])

    async def close(self) -> None:
        """Accept nobody any more; who is in is the server's to end."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for listener in self._listeners:
            listener.close()

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(listener)
            except OSError as exc:
                logger.warning("api.not_accepted", extra={"why": str(exc)})
                await asyncio.sleep(FULL_S)
                continue
            if len(self._server.connections) + len(self._tasks) >= MOST_CONNECTIONS:
                connection.close()
                continue
            self._keep(asyncio.create_task(self._let_in(connection), name="api handshake"))

    async def _let_in(self, connection: socket.socket) -> None:
        tls = self._door.tls
        within_s = BEGINS_WITHIN_S if tls is not None else None
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                self._server, connection, ssl=tls, ssl_handshake_timeout=within_s
            )
        except OSError:
            connection.close()  # a stranger who breaks off, or speaks no TLS, is no news

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
