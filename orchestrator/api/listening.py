"""The API on a TCP address, for those who have the token: what is allowed, and who comes in.

Owns the rules: a token always, compared in constant time; TLS, or a loopback address. Must not:
know a route.
"""

import hashlib
import hmac
import ipaddress
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from orchestrator.api.forwarding import PASSED_ON
from orchestrator.core.errors import UsageError

TOKEN_VARIABLE = "ORCH_API_TOKEN"  # noqa: S105  the name of a variable, not its value
LEAST_TOKEN_CHARS = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """One checked way in."""

    host: str
    port: int
    token: str
    tls: ssl.SSLContext | None


def checked_door(address: str, cert: str | None, key: str | None, token: str | None) -> Door:
    """The door of `--listen HOST:PORT`; UsageError where it would let anybody in."""
    host, port = _split(address)
    if token is None or len(token) < LEAST_TOKEN_CHARS:
        raise UsageError(
            f"--listen {address}: {TOKEN_VARIABLE} has no value of {LEAST_TOKEN_CHARS} characters "
            "or more.",
            remedy="Set it in $XDG_CONFIG_HOME/orch/env (mode 0600), as from "
            "`python3 -c 'import secrets; print(secrets.token_urlsafe(32))'`.",
        )
    if (cert is None) != (key is None):
        raise UsageError("--tls-cert and --tls-key belong together: give both or none.")
    tls = _tls(cert, key) if cert is not None and key is not None else None
    if tls is None and not _is_loopback(host):
        raise UsageError(
            f"--listen {address}: the token would travel in the clear.",
            remedy="Give --tls-cert and --tls-key, or listen on 127.0.0.1 and come by ssh -L.",
        )
    return Door(host=host, port=port, token=token, tls=tls)


def guard(door: Door) -> Middleware:
    """Lets in whoever has the token, and nobody else to any path."""
    wanted = _digest(f"Bearer {door.token}")

    @web.middleware
    async def only_with_token(request: web.Request, handler: Handler) -> web.StreamResponse:
        said = request.headers.get("Authorization", "")
        # Digests are of one length, so that the comparison tells nothing of the token.
        if not hmac.compare_digest(_digest(said), wanted):
            return _refused(401, "The token is missing or wrong.", {"WWW-Authenticate": "Bearer"})
        if _gives_a_name(request):
            return _refused(400, f"{PASSED_ON} is said between daemons, and not here.", {})
        return await handler(request)

    return only_with_token


def _gives_a_name(request: web.Request) -> bool:
    """Who has the token would be whoever they say they are, in the journal."""
    return PASSED_ON in request.headers


def _refused(status: int, message: str, headers: Mapping[str, str]) -> web.Response:
    text = {"message": message, "remedy": None, "exit_code": 1}
    return web.json_response({"error": text}, status=status, headers=headers)


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()


def _split(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise UsageError(
            f"--listen {address}: not an address and a port.", remedy="Write 127.0.0.1:8787."
        )
    return host, int(port)


def _is_loopback(host: str) -> bool:
    # A name may point anywhere tomorrow: only an address says that it stays on this machine.
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _tls(cert: str, key: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(Path(cert).expanduser(), Path(key).expanduser())
    except (OSError, ssl.SSLError) as exc:
        raise UsageError(f"--tls-cert {cert}, --tls-key {key}: {exc.strerror or exc}.") from exc
    return context
