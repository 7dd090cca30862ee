"""A real webhook receiver on loopback: keeps every request, answers as it is told.

Owns one HTTP server in threads. It can check Standard Webhooks signatures; it decides nothing
about what an alert should say.
"""

from __future__ import annotations

import base64
import ctypes
import json
import secrets
import ssl
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any

from standardwebhooks import Webhook

_CLONE_NEWNET = 0x40000000


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """One request as it came in."""

    at: float
    """wall clock, when the body was complete"""
    monotonic: float
    path: str
    headers: dict[str, str]
    """names in lower case"""
    body: bytes
    status: int | None
    """what it was answered; None when the connection was closed instead"""

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """How one request is answered."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    """wait so long first, or until the receiver is stopped"""
    cut: bool = False
    """close the connection in the middle of the answer's body"""


class Receiver:
    """`with Receiver() as receiver:` listens on `receiver.url` until the block ends."""

    def __init__(
        self, *, tls: Path | None = None, port: int = 0, network_of: int | None = None
    ) -> None:
        """`tls`: a PEM with key and certificate. `network_of`: a PID, whose loopback it is on."""
        self.secret = "whsec_" + base64.b64encode(secrets.token_bytes(24)).decode()
        self.default = Answer()
        """given when no scripted answer is left"""
        self._received: list[Received] = []
        self._answers: deque[Answer] = deque()
        self._changed = threading.Condition()
        self._stopping = threading.Event()
        self._scheme = "https" if tls else "http"
        self._server = _within(network_of, lambda: _server(self, port))
        if tls is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(tls)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )

    def __enter__(self) -> Receiver:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stopping.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        """Where to send webhooks; any other path is kept as well."""
        return f"{self._scheme}://127.0.0.1:{self._server.server_address[1]}/hook"

    @property
    def env(self) -> dict[str, str]:
        """The variables that the shipped inventory's webhook sink reads."""
        return {"ORCH_WEBHOOK_URL": self.url, "ORCH_WEBHOOK_SECRET": self.secret}

    @property
    def received(self) -> list[Received]:
        """Every request so far, in the order of arrival."""
        with self._changed:
            return list(self._received)

    def script(self, *answers: Answer) -> None:
        """Answer the next requests so, one each."""
        with self._changed:
            self._answers.extend(answers)

    def wait_for(
        self,
        count: int = 1,
        *,
        where: Callable[[Received], bool] = lambda _: True,
        timeout_s: float = 45.0,
    ) -> list[Received]:
        """The requests that satisfy WHERE, once there are COUNT of them.

        Raises TimeoutError with what did arrive.
        """
        with self._changed:
            self._changed.wait_for(
                lambda: len([r for r in self._received if where(r)]) >= count, timeout=timeout_s
            )
            found = [r for r in self._received if where(r)]
        if len(found) < count:
            bodies = [r.body[:200] for r in self.received]
            raise TimeoutError(f"{len(found)} of {count} webhooks in {timeout_s} s; all: {bodies}")
        return found

    def verify(self, request: Received) -> Any:
        """The body, once its Standard Webhooks signature fits this receiver's secret.

        Raises standardwebhooks.WebhookVerificationError.
        """
        return Webhook(self.secret).verify(request.body, request.headers)

    def _next_answer(self) -> Answer:
        with self._changed:
            return self._answers.popleft() if self._answers else self.default

    def _keep(self, request: Received) -> None:
        with self._changed:
            self._received.append(request)
            self._changed.notify_all()


class _Quiet(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """A sender that is killed, or ends, resets its connection: no news for a test."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


def _within(pid: int | None, make: Callable[[], ThreadingHTTPServer]) -> ThreadingHTTPServer:
    """What is made, in the network of a process: a socket stays where its thread was."""
    if pid is None:
        return make()

    def enter_and_make() -> ThreadingHTTPServer:
        with open(f"/proc/{pid}/ns/net", "rb") as network:
            if ctypes.CDLL(None, use_errno=True).setns(network.fileno(), _CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "setns")
        return make()

    with ThreadPoolExecutor(1) as aside:
        return aside.submit(enter_and_make).result()


def _server(receiver: Receiver, port: int) -> ThreadingHTTPServer:
    class Reply(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            answer = receiver._next_answer()
            receiver._keep(
                Received(
                    at=time.time(),
                    monotonic=time.monotonic(),
                    path=self.path,
                    headers={name.lower(): value for name, value in self.headers.items()},
                    body=body,
                    status=None if answer.cut else answer.status,
                )
            )
            if answer.delay_s:
                receiver._stopping.wait(answer.delay_s)
            try:
                self._answer(answer)
            except OSError:
                self.close_connection = True  # the sender gave up first

        def _answer(self, answer: Answer) -> None:
            text = b"" if answer.status == 204 else b'{"ok": true}'
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(text) + (100 if answer.cut else 0)))
            self.end_headers()
            self.wfile.write(text)
            if answer.cut:
                self.close_connection = True

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- the base names it
            """Say nothing: the test reads `received`."""

    server = _Quiet(("127.0.0.1", port), Reply)
    server.daemon_threads = True
    server.block_on_close = False
    return server
