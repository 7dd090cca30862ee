"""Serves the dashboard to a browser on this machine, to those who could open the daemon's socket.

The API's login is the socket's mode, 0600. A port on loopback is open to every user of the machine
and to every page of a browser, so a secret takes its place: it is in the address that is printed,
becomes a cookie that no other site's page can send, and without it every request is refused.
"""

import hmac
import secrets
import shlex
import sys
from collections.abc import Sequence

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware
from textual_serve.server import Server

HOST = "127.0.0.1"
_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline';"
    " img-src 'self' data:; font-src 'self' data:; connect-src 'self'; frame-ancestors 'none'"
)
"""Nothing is loaded from elsewhere, whatever the page asks for."""


class GatedServer(Server):
    """textual-serve behind the secret."""

    def __init__(self, argv: Sequence[str], port: int) -> None:
        super().__init__(
            shlex.join(argv),
            host=HOST,
            port=port,
            title="orch",
            public_url=f"http://{HOST}:{port}",
        )
        self._secret = secrets.token_urlsafe(24)
        self._cookie = f"orch-{port}"

    @property
    def address(self) -> str:
        """Where to go, secret and all."""
        return f"{self.public_url}/?key={self._secret}"

    async def _make_app(self) -> web.Application:
        app: web.Application = await super()._make_app()
        app.middlewares.append(self._gate())
        return app

    def _gate(self) -> Middleware:
        @web.middleware
        async def gate(request: web.Request, handler: Handler) -> web.StreamResponse:
            if self._is(request.query.get("key")):
                answer = web.HTTPSeeOther("/")
                answer.set_cookie(self._cookie, self._secret, httponly=True, samesite="Strict")
                return answer
            if not self._is(request.cookies.get(self._cookie)):
                return web.Response(
                    status=403,
                    text="Use the whole address that `orch tui --web` printed, with its key.\n",
                )
            response = await handler(request)
            if not response.prepared:
                response.headers["Content-Security-Policy"] = _POLICY
                response.headers["Referrer-Policy"] = "no-referrer"
            return response

        return gate

    def _is(self, said: str | None) -> bool:
        return said is not None and hmac.compare_digest(said.encode(), self._secret.encode())

    def initialize_logging(self) -> None:
        """Set up none: what there is to say is the address."""

    async def on_startup(self, _app: web.Application) -> None:
        """Say where it is."""
        sys.stdout.write(f"{self.address}\n")
        sys.stdout.write("The address is as good as a login. Ctrl+C ends it; runs go on.\n")
        sys.stdout.flush()


def serve(arguments: Sequence[str], port: int) -> int:
    """Serve `python -m tui ARGUMENTS` until it is interrupted; the exit code."""
    server = GatedServer([sys.executable, "-m", "tui", *arguments], port)
    try:
        server.serve()
    except OSError as error:
        sys.stderr.write(f"orch: {HOST}:{port}: {error.strerror}. Give another: --web PORT\n")
        return 1
    return 0
