"""A real HTTP receiver that answers as a script says, and a clock that runs faster."""

import asyncio
import json
import ssl
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from orchestrator.clock import SystemClock


class HurriedClock(SystemClock):
    """The real clock, twenty times as fast, so that a minute of retries is three seconds."""

    def __init__(self, speed: float = 20.0) -> None:
        self._speed = speed
        self._wall, self._start = super().now(), super().monotonic()

    def now(self) -> float:
        return self._wall + self.monotonic()

    def monotonic(self) -> float:
        return (super().monotonic() - self._start) * self._speed

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds / self._speed)


@dataclass(frozen=True)
class Answer:
    """How the receiver treats one request."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    wait_s: float = 0.0
    cut: str = ""
    """`before`: close without an answer; `within`: close within the answer's body."""


@dataclass(frozen=True)
class Request:
    """What came."""

    headers: dict[str, str]
    body: bytes
    path: str
    at: float
    """Loop time of its arrival."""

    @property
    def document(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


class Receiver:
    """Records every request; answers by the script, then by `then`."""

    def __init__(self, *script: Answer, then: Answer | None = None) -> None:
        self.script = list(script)
        self.then = then or Answer()
        self.requests: list[Request] = []
        self.statuses: list[int] = []
        self.port = 0
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}/hook/s3cret"

    @property
    def taken(self) -> list[Request]:
        """Requests that were answered by 2xx."""
        pairs = zip(self.requests, self.statuses, strict=False)
        return [request for request, status in pairs if 200 <= status < 300]

    async def start(self, tls: ssl.SSLContext | None = None) -> "Receiver":
        """Listen on loopback, on the port of before where there was one."""
        app = web.Application()
        app.router.add_route("*", "/{tail:.*}", self._answer)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port, ssl_context=tls)
        await site.start()
        self.port = self._runner.addresses[0][1]
        return self

    async def stop(self) -> None:
        """Close the door."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def until(self, number: int, deadline_s: float = 30.0) -> list[Request]:
        """The taken requests, once there are `number` of them."""
        async with asyncio.timeout(deadline_s):
            while len(self.taken) < number:
                await asyncio.sleep(0.01)
        return self.taken

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        arrived = asyncio.get_running_loop().time()
        body = await request.read()
        answer = self.script.pop(0) if self.script else self.then
        self.requests.append(Request(dict(request.headers), body, request.path, arrived))
        self.statuses.append(0 if answer.cut == "before" else answer.status)
        await asyncio.sleep(answer.wait_s)
        if answer.cut and request.transport is not None:
            if answer.cut == "within":
                request.transport.write(b"HTTP/1.1 500 Oops\r\nContent-Length: 99\r\n\r\nhalf")
            request.transport.abort() if answer.cut == "before" else request.transport.close()
        return web.Response(status=answer.status, headers=answer.headers)
