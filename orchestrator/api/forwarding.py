"""Requests about what another daemon drives: passed on to it, answer and all, as they came.

Owns the form in which a request's answer travels: its head as JSON, then the bytes of its body as
they come; and what its client gets where they end too early. Must not: know who drives what, nor
the way between two daemons; the Backend does.
"""

import contextlib
import json
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from aiohttp import ClientSession, ClientTimeout, UnixConnector, web
from aiohttp.typedefs import Handler, Middleware

from orchestrator.api.asking import asker
from orchestrator.api.refusing import error_line
from orchestrator.core.errors import OrchError

PASSED_ON = "X-Orch-Asked-By"
"""Who asked, in the other daemon's journal; a request that has it is not passed on again."""
CONNECT_S = 5.0
LINES = "application/x-ndjson"
PART_BYTES = 256 * 1024
_KEPT = frozenset(
    {"content-type", "x-orch-offset", "x-orch-size", "x-orch-attempt", "x-orch-archive"}
)


class Asked(NamedTuple):
    """A request on its way to another daemon."""

    method: str
    path: str
    body: bytes
    by: str


class Elsewhere(NamedTuple):
    """The way to the daemon that a request belongs to."""

    words: str
    """What the user's words mean, in full: `@1` may be another run by the time it is read."""
    ask: Callable[[Asked], AsyncGenerator[bytes, None]]
    """The parts of the answer; OrchError where none comes."""


Find = Callable[[str, str], Awaitable[Elsewhere | None]]
"""(words, what): the daemon that has to answer; None: this one."""


def pass_on(find: Find) -> Middleware:
    """Answers by another daemon where `find` says that one drives what the request is about."""

    @web.middleware
    async def passing(request: web.Request, handler: Handler) -> web.StreamResponse:
        said = request.headers.get(PASSED_ON)
        if said is not None:
            asker.set(said)
            return await handler(request)
        words, resource = request.match_info.get("words"), request.match_info.route.resource
        if words is None or resource is None:
            return await handler(request)
        what = request.path.rpartition("/")[2]
        there = await find(words, what)
        if there is None:
            return await handler(request)
        path = resource.canonical.replace("{words}", quote(there.words, safe="@"))
        query = f"?{request.rel_url.raw_query_string}" if request.rel_url.raw_query_string else ""
        by = f"{asker.get()} on {socket.gethostname()}"
        asked = Asked(request.method, path + query, await request.read(), by)
        return await _answer(request, there.ask(asked))

    return passing


async def _answer(request: web.Request, parts: AsyncGenerator[bytes, None]) -> web.StreamResponse:
    """A document or a file once it is whole, so that an error on the way is told as one."""
    async with aclosing(parts):
        head = json.loads(await anext(parts))
        headers: dict[str, str] = head["headers"]
        if headers.get("Content-Type") != LINES:
            content = b"".join([part async for part in parts])
            return web.Response(status=head["status"], headers=headers, body=content)
        response = web.StreamResponse(status=head["status"], headers=headers)
        with contextlib.suppress(ConnectionError):  # the client left
            await response.prepare(request)
            await _write_lines(response, parts)
            await response.write_eof()
        return response


async def _write_lines(response: web.StreamResponse, parts: AsyncIterator[bytes]) -> None:
    """Whole lines as they come; an error is the last one."""
    torn = b""
    try:
        async for part in parts:
            whole, end, rest = part.rpartition(b"\n")
            if end:
                await response.write(torn + whole + end)
            torn = rest if end else torn + rest
    except OrchError as error:
        await response.write(error_line(error))
    else:
        await response.write(torn)


async def answered_here(asked: Asked, server: Path) -> AsyncGenerator[bytes, None]:
    """The parts of what the daemon behind a socket, which is this one, says to a request."""
    waiting = ClientTimeout(total=None, sock_connect=CONNECT_S)
    async with ClientSession(connector=UnixConnector(str(server)), timeout=waiting) as session:
        url = f"http://orch{asked.path}"
        headers = {PASSED_ON: asked.by, "Content-Type": "application/json"}
        request = session.request(asked.method, url, headers=headers, data=asked.body)
        async with request as answer:
            kept = {k: v for k, v in answer.headers.items() if k.lower() in _KEPT}
            yield json.dumps({"status": answer.status, "headers": kept}).encode()
            while part := await answer.content.readany():
                for begin in range(0, len(part), PART_BYTES):
                    yield part[begin : begin + PART_BYTES]
