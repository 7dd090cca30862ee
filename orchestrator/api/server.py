"""The daemon's HTTP server on its unix socket and where it listens else: routes, streams, errors.

It owns how a Backend's answers travel. It must not reach a host, the store or the inventory: all
that comes through the Backend given to it.
"""

import contextlib
import json
import logging
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from aiohttp import web
from aiohttp.typedefs import Middleware

from orchestrator.api import messages
from orchestrator.api.asking import name_asker
from orchestrator.api.forwarding import Elsewhere, pass_on
from orchestrator.api.listening import Door, guard
from orchestrator.api.porch import BEGINS_WITHIN_S, Porch
from orchestrator.api.refusing import Handler, cut_begun, note_begun, translate_errors
from orchestrator.api.streaming import (
    ARCHIVE,
    KEEPALIVE_S,
    Message,
    Stream,
    cover_answers,
    send,
    sse,
)
from orchestrator.clock import with_pauses
from orchestrator.core.errors import UsageError

logger = logging.getLogger(__name__)

MAX_BODY_BYTES = 16 * 1024 * 1024
IDLE_S = 3600.0
"""On the socket, where all who come are this user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRange:
    """A range of a stored log; `size` is that of the whole."""

    attempt: int
    offset: int
    size: int
    chunk: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """A file for a person to take away."""

    facts: Message
    """`name` and what else is to be said of it; sent as the header X-Orch-Archive."""
    content: bytes


class Backend(Protocol):
    """What the daemon can do for a client; every error is an OrchError."""

    async def daemon_view(self) -> messages.DaemonView: ...
    def ask_to_end(self) -> None: ...
    def accept_environment(self, values: Mapping[str, str]) -> Message: ...
    async def snapshot(self, since: int | None) -> messages.Snapshot: ...
    def changes(self, since: int) -> AsyncGenerator[messages.Snapshot, None]: ...
    async def get(self, what: str, words: str, query: Mapping[str, str]) -> Message: ...
    async def log_range(self, words: str, query: Mapping[str, str]) -> LogRange: ...
    async def archive(self, words: str) -> Archive: ...
    def stream(self, what: str, words: str, body: Mapping[str, Any]) -> Stream: ...
    async def act(self, what: str, words: str, body: Mapping[str, Any]) -> Message: ...
    def metrics_text(self) -> str: ...
    def covered(self, answer: bytes, *, is_json: bool) -> bytes: ...
    async def elsewhere(self, words: str, what: str) -> Elsewhere | None: ...


async def _body(request: web.Request) -> dict[str, Any]:
    raw = await request.read()
    if not raw:
        return {}
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError) as exc:
        raise UsageError(f"{request.path}: the body is not JSON: {exc}") from exc
    if not isinstance(body, dict):
        raise UsageError(f"{request.path}: the body is not a JSON object")
    # What a terminal sent as no UTF-8 is half a surrogate pair: legal JSON, and no text to be kept.
    texts = {key: value for key, value in body.items() if isinstance(value, str)}
    return body | {key: text.encode("utf-8", "replace").decode() for key, text in texts.items()}


class Server:
    """Serves one Backend on one unix socket."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._runners: list[web.AppRunner] = []
        self._porches: list[Porch] = []

    async def start(self, socket: Path) -> None:
        """Listen on `socket` (0600, in a folder of 0700); an old file there is replaced."""
        runner = await self._serve(self._application())
        with contextlib.suppress(FileNotFoundError):
            socket.unlink()
        await web.UnixSite(runner, str(socket)).start()
        socket.chmod(0o600)

    async def listen(self, door: Door) -> int:
        """Listen on an address too, behind the door's token; the port, also where 0 was asked."""
        runner = await self._serve(self._application(guard(door)), BEGINS_WITHIN_S)
        assert runner.server is not None
        porch = Porch(runner.server, door)
        self._porches.append(porch)
        try:
            return await porch.open()
        except OSError as exc:
            raise UsageError(
                f"--listen {door.host}:{door.port}: {exc.strerror or exc}.",
                remedy="Choose a free port of an address of this machine.",
            ) from exc

    async def stop(self) -> None:
        """Stop listening and end the streams."""
        for porch in self._porches:
            await porch.close()
        for runner in self._runners:
            await runner.cleanup()

    def _application(self, *guards: Middleware) -> web.Application:
        app = web.Application(
            middlewares=[
                *guards,
                name_asker,
                cover_answers(self._backend.covered),
                translate_errors,
                cut_begun,
                pass_on(self._backend.elsewhere),
            ],
            client_max_size=MAX_BODY_BYTES,
        )
        app.on_response_prepare.append(note_begun)
        self._add_routes(app.router)
        return app

    async def _serve(self, app: web.Application, idle_s: float = IDLE_S) -> web.AppRunner:
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0, keepalive_timeout=idle_s)
        await runner.setup()
        self._runners.append(runner)
        return runner

    def _add_routes(self, router: web.UrlDispatcher) -> None:
        router.add_get("/v1/daemon", self._daemon)
        router.add_post("/v1/daemon/stop", self._end)
        router.add_put("/v1/environment", self._environment)
        router.add_get("/v1/snapshot", self._snapshot)
        router.add_get("/v1/events", self._events)
        router.add_get("/v1/runs/{words}/log", self._log)
        router.add_get("/v1/runs/{words}/bundle", self._archive)
        router.add_get("/v1/runs/{words}/follow", self._get_stream("follow"))
        router.add_get("/v1/runs/{words}/search", self._get_stream("search"))
        router.add_post("/v1/runs/{words}/stop", self._post_stream("stop"))
        router.add_post("/v1/deploy", self._post_stream("deploy"))
        router.add_post("/v1/run", self._post_stream("run"))
        router.add_post("/v1/adopt", self._post_stream("adopt"))
        router.add_post("/v1/simulate", self._post_stream("simulate"))
        router.add_post("/v1/repeat", self._post_stream("repeat"))
        router.add_post("/v1/bisect", self._post_stream("bisect"))
        router.add_get("/healthz", self._health)
        router.add_get("/metrics", self._metrics)
        for what in ("runs", "incidents", "doctor", "top", "releases", "silences", "compare"):
            router.add_get(f"/v1/{what}", self._get(what))
        router.add_get("/v1/wait", self._get("wait-any"))
        router.add_get("/v1/runs/{words}", self._get("run"))
        router.add_get("/v1/incidents/{words}", self._get("incident"))
        router.add_get("/v1/incidents/{words}/explain", self._get("explain"))
        for what in ("metrics", "wait", "gpus", "diff", "timeline", "environment"):
            router.add_get(f"/v1/runs/{{words}}/{what}", self._get(what))
        router.add_post("/v1/incidents/{words}/ack", self._act("ack"))
        router.add_post("/v1/silences", self._act("silence-add"))
        router.add_post("/v1/silences/{words}/expire", self._act("silence-expire"))
        router.add_post("/v1/targets/{words}/end-process", self._act("end-process"))
        router.add_post("/v1/targets/{words}/prune", self._act("prune-target"))
        router.add_post("/v1/hosts/{words}/give-up", self._act("give-up"))
        router.add_get("/v1/cache", self._get("cache"))
        router.add_get("/v1/releases/there", self._get("releases-there"))
        for what in ("save", "restore", "clear"):
            router.add_post(f"/v1/cache/{what}", self._act(f"cache-{what}"))
        router.add_post("/v1/prune", self._act("prune"))
        router.add_post("/v1/rollback", self._act("rollback"))
        router.add_post("/v1/alert-test", self._act("alert-test"))

    # --- documents -------------------------------------------------------------------------------

    async def _daemon(self, _: web.Request) -> web.Response:
        return web.json_response(await self._backend.daemon_view())

    async def _health(self, _: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(
            text=self._backend.metrics_text(),
            headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"},
        )

    async def _end(self, _: web.Request) -> web.Response:
        self._backend.ask_to_end()
        return web.json_response({})

    async def _environment(self, request: web.Request) -> web.Response:
        body = await _body(request)
        values = {name: value for name, value in body.items() if isinstance(value, str)}
        return web.json_response(self._backend.accept_environment(values))

    async def _snapshot(self, request: web.Request) -> web.Response:
        since = request.query.get("since")
        if since is not None and not (since.isascii() and since.isdigit()):
            raise UsageError(f"since={since}: a cursor is a whole number.")
        return web.json_response(
            await self._backend.snapshot(int(since) if since is not None else None)
        )

    def _get(self, what: str) -> Handler:
        async def answer(request: web.Request) -> web.Response:
            words = request.match_info.get("words", "")
            return web.json_response(await self._backend.get(what, words, request.query))

        return answer

    def _act(self, what: str) -> Handler:
        async def answer(request: web.Request) -> web.Response:
            words = request.match_info.get("words", "")
            return web.json_response(await self._backend.act(what, words, await _body(request)))

        return answer

    async def _log(self, request: web.Request) -> web.Response:
        found = await self._backend.log_range(request.match_info["words"], request.query)
        headers = {
            "X-Orch-Offset": str(found.offset),
            "X-Orch-Size": str(found.size),
            "X-Orch-Attempt": str(found.attempt),
        }
        return web.Response(
            body=found.chunk, headers=headers, content_type="application/octet-stream"
        )

    async def _archive(self, request: web.Request) -> web.Response:
        found = await self._backend.archive(request.match_info["words"])
        return web.Response(
            body=found.content,
            headers={"X-Orch-Archive": json.dumps(found.facts)},
            content_type=ARCHIVE,
        )

    # --- streams ---------------------------------------------------------------------------------

    def _get_stream(self, what: str) -> Handler:
        async def answer(request: web.Request) -> web.StreamResponse:
            words = request.match_info.get("words", "")
            stream = self._backend.stream(what, words, dict(request.query))
            return await send(request, stream, self._backend.covered)

        return answer

    def _post_stream(self, what: str) -> Handler:
        async def answer(request: web.Request) -> web.StreamResponse:
            words = request.match_info.get("words", "")
            stream = self._backend.stream(what, words, await _body(request))
            return await send(request, stream, self._backend.covered)

        return answer

    async def _events(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        first = await self._backend.snapshot(None)
        news = with_pauses(self._backend.changes(first["cursor"]), KEEPALIVE_S)
        # A client that leaves is no error: the stream just ends.
        with contextlib.suppress(ConnectionError):
            await response.write(sse(self._backend.covered, "snapshot", first))
            async with contextlib.aclosing(news):
                async for change in news:
                    await response.write(
                        b":\n\n" if change is None else sse(self._backend.covered, "change", change)
                    )
        return response
