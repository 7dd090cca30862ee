"""How answers leave: streams message by message, documents whole, none with a secret's value.

Owns the form of streams and the place that everything passes. Must not: know a route or a value.
"""

import contextlib
import json
import logging
from collections.abc import AsyncIterator, Mapping
from typing import Any, Protocol

from aiohttp import web
from aiohttp.typedefs import Middleware

from orchestrator.api import messages
from orchestrator.api.refusing import Handler, error_message
from orchestrator.clock import with_pauses
from orchestrator.core.errors import OrchError

logger = logging.getLogger(__name__)

Message = dict[str, Any]
Stream = AsyncIterator[Message]
ARCHIVE = "application/gzip"
KEEPALIVE_S = 15.0
"""A stream says something after this time at most, so that a client that is gone is noticed."""


class Cover(Protocol):
    """An answer as it may be sent; of JSON only texts are changed."""

    def __call__(self, answer: bytes, *, is_json: bool) -> bytes: ...


def cover_answers(cover: Cover) -> Middleware:
    """Documents, logs and errors are covered here; an archive was made without any secret."""

    @web.middleware
    async def covered(request: web.Request, handler: Handler) -> web.StreamResponse:
        answer = await handler(request)
        if isinstance(answer, web.Response) and answer.content_type != ARCHIVE:
            body = answer.body
            if isinstance(body, bytes):
                is_json = answer.content_type == "application/json"
                answer.body = cover(body, is_json=is_json)
        return answer

    return covered


def sse(cover: Cover, event: str, snapshot: messages.Snapshot) -> bytes:
    """A snapshot as a server-sent event."""
    head = f"event: {event}\nid: {snapshot['cursor']}\ndata: ".encode()
    return head + _line(cover, snapshot) + b"\n"


async def send(request: web.Request, stream: Stream, cover: Cover) -> web.StreamResponse:
    """A stream as NDJSON; an error before the first message gets its own status."""
    async with contextlib.aclosing(with_pauses(stream, KEEPALIVE_S)) as news:
        first = await anext(news, None)
        response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
        await response.prepare(request)
        # A client that leaves is no error: the stream just ends.
        with contextlib.suppress(ConnectionError):
            await response.write(b"\n" if first is None else _line(cover, first))
            await _send_rest(request, response, news, cover)
            await response.write_eof()
        return response


async def _send_rest(
    request: web.Request,
    response: web.StreamResponse,
    news: AsyncIterator[Message | None],
    cover: Cover,
) -> None:
    try:
        async for message in news:
            await response.write(b"\n" if message is None else _line(cover, message))
    except OrchError as error:
        await response.write(_line(cover, {"kind": "error", **error_message(error)}))
    except ConnectionError:
        raise
    except Exception as error:
        logger.exception("api.stream_failed", extra={"path": request.path})
        said = OrchError(f"the daemon failed: {type(error).__name__}: {error}")
        await response.write(_line(cover, {"kind": "error", **error_message(said)}))


def _line(cover: Cover, message: Mapping[str, Any]) -> bytes:
    text = json.dumps(message, separators=(",", ":")).encode() + b"\n"
    return cover(text, is_json=True)
