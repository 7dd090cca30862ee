"""Who asks: the user behind a connection of the socket, or the address of one that came by TCP.

Owns the name that the journal keeps of a person's command. Must not: let anybody in or out.
"""

import pwd
import socket
import struct
from contextvars import ContextVar

from aiohttp import web
from aiohttp.typedefs import Handler

_CREDENTIALS = struct.Struct("3i")

asker: ContextVar[str] = ContextVar("asker", default="the daemon")
"""Who asked for what is being done in this task."""


@web.middleware
async def name_asker(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Keep the name for all that this request leads to."""
    asker.set(_name(request))
    return await handler(request)


def _name(request: web.Request) -> str:
    connection = request.transport.get_extra_info("socket") if request.transport else None
    if connection is None or connection.family != socket.AF_UNIX:
        return f"a holder of the token at {request.remote or 'an unknown address'}"
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, user, _ = _CREDENTIALS.unpack(raw)
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"user {user}"
