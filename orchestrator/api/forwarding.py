"""Requests about what another daemon drives: passed on to it, answer and all, as they came.

Owns the way between two daemons: the other's unix socket, on the same machine. Must not: know who
drives what; the Backend is asked.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from aiohttp import ClientError, ClientSession, ClientTimeout, UnixConnector, web
from aiohttp.typedefs import Handler, Middleware

from orchestrator.api.asking import asker
from orchestrator.core.errors import OrchError

PASSED_ON = "X-Orch-Asked-By"
"""Who asked, in the other daemon's journal; a request that has it is not passed on again."""
CONNECT_S = 5.0
_OWN = frozenset(
    {
        *("transfer-encoding", "content-length", "connection", "date", "server", "host"),
        "authorization",
    }
)
"""Headers of one hop; the token of `--listen` let the asker in here, and goes no further."""

logger = logging.getLogger(__name__)


class Elsewhere(NamedTuple):
    """The daemon that a request belongs to."""

    socket: str
    refusal: OrchError
    """What is said where it cannot be reached from here."""


Find = Callable[[str, str, str], Awaitable[Elsewhere | None]]
"""(method, words, what): the daemon that has to answer; None: this one."""


def pass_on(find: Find) -> Middleware:
    """Answers by another daemon where `find` says that one drives what the request is about."""

    @web.middleware
    async def passing(request: web.Request, handler: Handler) -> web.StreamResponse:
        said = request.headers.get(PASSED_ON)
        if said is not None:
            asker.set(said)
            return await handler(request)
        words = request.match_info.get("words")
        if words is None:
            return await handler(request)
        what = request.path.rpartition("/")[2]
        there = await find(request.method, words, what)
        return await handler(request) if there is None else await _answer(request, there)

    return passing


async def _answer(request: web.Request, there: Elsewhere) -> web.StreamResponse:
    headers = {name: value for name, value in request.headers.items() if name.lower() not in _OWN}
    headers[PASSED_ON] = asker.get()
    waiting = ClientTimeout(total=None, sock_connect=CONNECT_S)
    async with ClientSession(connector=UnixConnector(there.socket), timeout=waiting) as session:
        try:
            asked = session.request(
                request.method,
                f"http://orch{request.raw_path}",
                headers=headers,
                data=await request.read(),
            )
            async with asked as answer:
                kept = {k: v for k, v in answer.headers.items() if k.lower() not in _OWN}
                response = web.StreamResponse(status=answer.status, headers=kept)
                await response.prepare(request)
                async for chunk in answer.content.iter_any():
                    await response.write(chunk)
                await response.write_eof()
                return response
        except ClientError as error:
            logger.warning("api.not_passed_on", extra={"path": request.path, "why": str(error)})
            raise there.refusal from error
