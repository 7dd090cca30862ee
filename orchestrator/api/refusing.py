"""Errors as clients read them: one document for each, and its status.

Owns the only place where an exception becomes an answer. Must not: know a route.
"""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from orchestrator.core.errors import (
    InventoryError,
    NoSuchRun,
    OrchError,
    PreflightRefused,
    UsageError,
)

logger = logging.getLogger(__name__)

_BEGUN = web.RequestKey("begun", bool)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def error_message(error: OrchError) -> dict[str, Any]:
    """An error as clients read it."""
    said: dict[str, Any] = {
        "message": error.message,
        "remedy": error.remedy,
        "exit_code": error.exit_code,
    }
    if isinstance(error, PreflightRefused):
        said["checks"] = [check._asdict() for check in error.checks]
    if isinstance(error, InventoryError):
        said["problems"] = [str(problem) for problem in error.problems]
    return said


def error_line(error: OrchError) -> bytes:
    """The same as the last line of a stream."""
    said = {"kind": "error", **error_message(error)}
    return json.dumps(said, separators=(",", ":")).encode() + b"\n"


def _status(error: OrchError) -> int:
    if isinstance(error, NoSuchRun):
        return 404
    if isinstance(error, UsageError):
        return 400
    return 409 if isinstance(error, PreflightRefused) else 502 if error.exit_code == 4 else 500


@web.middleware
async def translate_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer with the error of whatever answers the request."""
    try:
        return await handler(request)
    except OrchError as error:
        return web.json_response({"error": error_message(error)}, status=_status(error))
    except web.HTTPException as error:
        text = {"message": f"{request.path}: {error.reason}", "remedy": None, "exit_code": 1}
        return web.json_response({"error": text}, status=error.status)
    except (ConnectionResetError, asyncio.CancelledError):
        raise
    except Exception as error:
        logger.exception("api.failed", extra={"path": request.path})
        text = {
            "message": f"the daemon failed on {request.path}: {type(error).__name__}: {error}",
            "remedy": "Its log in the state folder has the traceback.",
            "exit_code": 1,
        }
        return web.json_response({"error": text}, status=500)


async def note_begun(request: web.Request, _response: web.StreamResponse) -> None:
    """An answer leaves: what goes wrong from now on can be no answer of its own."""
    request[_BEGUN] = True


@web.middleware
async def cut_begun(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Where half of an answer has left, its client sees that it was cut, not an error within it."""
    try:
        return await handler(request)
    except ConnectionResetError:
        raise
    except Exception as error:
        if _BEGUN not in request:
            raise
        logger.exception("api.cut", extra={"path": request.path})
        if request.transport is not None:
            request.transport.abort()
        raise ConnectionResetError("the answer was cut") from error
