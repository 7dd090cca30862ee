"""Alerts as signed HTTP requests: Alertmanager's body or CloudEvents, Standard Webhooks' headers.

Owns the HTTP client of one sink. Follows no redirect, shows no address and no secret in a text.
Must not: send again by itself, the outbox does.
"""

import base64
import datetime
import os
import ssl
from email.utils import parsedate_to_datetime
from typing import Any

import aiohttp
from standardwebhooks import Webhook
from yarl import URL

from orchestrator.clock import Clock
from orchestrator.core.model import SinkSpec
from orchestrator.sinks import bodies
from orchestrator.sinks.base import Lookup, Message, Outcome, Result, refused, taken

DEADLINE_S = 15.0
MAX_RETRY_AFTER_S = 3600.0
LEAST_KEY_BYTES = 16
"""Standard Webhooks asks for 24 to 64; what is shorter than this is no secret."""

_CONTENT_TYPES = {
    "alertmanager": "application/json",
    "cloudevents": "application/cloudevents+json",
}


_STRANGER = "no authority that this machine knows has signed it"
_DISTRUSTED = {
    9: "it is not valid yet, by this machine's clock",
    10: "it has expired",
    18: "it is signed by itself",
    19: _STRANGER,
    20: _STRANGER,
    21: _STRANGER,
    62: "it is for another name than the address has",
    64: "it is for another name than the address has",
}
"""By X509_V_ERR_* of OpenSSL's x509_vfy.h."""


class WebhookSink:
    """One receiver; its address and secret are looked up at each request."""

    type = "webhook"

    def __init__(self, spec: SinkSpec, clock: Clock, *, deadline_s: float = DEADLINE_S) -> None:
        self.name = spec.name
        self._spec = spec
        self._clock = clock
        self._deadline = aiohttp.ClientTimeout(total=deadline_s)
        self._session: aiohttp.ClientSession | None = None

    def wants(self) -> tuple[str, ...]:
        """The address, and the secret where the inventory names one."""
        return tuple(name for name in (self._spec.url_env, self._spec.secret_env) if name)

    async def send(self, message: Message, lookup: Lookup) -> Result:
        """POST it; 2xx is taken, 410 is gone, all else is to be sent again."""
        url = checked_url(lookup(self._spec.url_env or "") or "")
        if url is None:
            return refused(_no_address(self._spec))
        body = self._body(message)
        try:
            headers = self._headers(message.id, body, lookup)
        except ValueError:
            return refused(_no_secret(self._spec))
        where = f"[{url.host}]:{url.port}" if ":" in (url.host or "") else f"{url.host}:{url.port}"
        try:
            async with self._client().post(
                url,
                data=body.encode(),
                headers=headers,
                allow_redirects=False,
                timeout=self._deadline,
            ) as response:
                return _judge(response, where, self._clock.now())
        except TimeoutError:
            return refused(f"{where}: no answer within {self._deadline.total:g} s")
        except (aiohttp.ClientError, OSError) as exc:
            return refused(f"{where}: {_reason(exc)}")

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _client(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar())
        return self._session

    def _body(self, message: Message) -> str:
        form: Any = (
            bodies.cloudevents if self._spec.format == "cloudevents" else bodies.alertmanager
        )
        return bodies.encoded(form(message, self.name))

    def _headers(self, message_id: str, body: str, lookup: Lookup) -> dict[str, str]:
        at = datetime.datetime.fromtimestamp(int(self._clock.now()), tz=datetime.UTC)
        headers = {
            "Content-Type": _CONTENT_TYPES[self._spec.format],
            "User-Agent": "orch",
            "webhook-id": message_id,
            "webhook-timestamp": str(int(at.timestamp())),
        }
        secrets = (lookup(self._spec.secret_env) or "").split() if self._spec.secret_env else []
        if secrets:
            # Two secrets, while one takes the place of the other: a signature by each.
            signatures = [Webhook(key_of(one)).sign(message_id, at, body) for one in secrets]
            headers["webhook-signature"] = " ".join(signatures)
        return headers


def fault_of(spec: SinkSpec, lookup: Lookup) -> tuple[str, str] | None:
    """What is wrong with the values of a webhook that has them, and the remedy; None: nothing."""
    if checked_url(lookup(spec.url_env or "") or "") is None:
        return _no_address(spec), f"Give {spec.url_env} the receiver's address, https://..."
    try:
        for secret in (lookup(spec.secret_env or "") or "").split():
            key_of(secret)
    except ValueError:
        make = 'echo "whsec_$(head -c 24 /dev/urandom | base64)"'
        return _no_secret(spec), f"Make one with `{make}`, and give it to the receiver too."
    return None


def _no_address(spec: SinkSpec) -> str:
    return f"the value of {spec.url_env} is no http or https address"


def _no_secret(spec: SinkSpec) -> str:
    return (
        f"the value of {spec.secret_env} is no secret of the form whsec_<base64> of "
        f"{LEAST_KEY_BYTES} bytes or more"
    )


def key_of(secret: str) -> bytes:
    """The bytes of a secret; ValueError where it is none.

    standardwebhooks leaves out what is no base64 and takes what is left, `abc` as two bytes.
    """
    words = secret.removeprefix("whsec_")
    key = base64.b64decode(words + "=" * (-len(words) % 4), validate=True)
    if len(key) < LEAST_KEY_BYTES:
        raise ValueError("the secret is too short")
    return key


def checked_url(address: str) -> URL | None:
    """The address, if it is http or https; private ones too, people run receivers at home."""
    try:
        url = URL(address.strip())
    except ValueError:
        return None
    return url if url.scheme in ("http", "https") and url.host else None


def _judge(response: aiohttp.ClientResponse, where: str, now: float) -> Result:
    status = response.status
    if 200 <= status < 300:
        return taken(f"{where}: {status}")
    if status == 410:
        return Result(outcome=Outcome.GONE, text=f"{where}: 410, the receiver is gone for good")
    if 300 <= status < 400:
        return refused(f"{where}: {status}, and redirects are not followed; set the new address")
    return refused(f"{where}: {status}", _retry_after(response.headers.get("Retry-After"), now))


def _retry_after(value: str | None, now: float) -> float | None:
    if value is None:
        return None
    try:
        seconds = (
            float(value)
            if value.strip().isdecimal()
            else parsedate_to_datetime(value).timestamp() - now
        )
    except (ValueError, OverflowError):
        return None
    return min(max(0.0, seconds), MAX_RETRY_AFTER_S)


def _reason(exc: Exception) -> str:
    match exc:
        case aiohttp.ClientConnectorCertificateError():
            return f"its TLS certificate is not trusted{_distrust(exc.certificate_error)}"
        case aiohttp.ClientConnectorSSLError() | ssl.SSLError():
            return "no TLS connection; is it plain http?"
        case aiohttp.ClientConnectorDNSError():
            return "its name is not known"
        case aiohttp.ClientConnectorError():
            number = exc.os_error.errno
            return f"cannot connect ({os.strerror(number) if number else 'refused'})"
        case aiohttp.ServerDisconnectedError():
            return "it closed the connection without an answer"
        case aiohttp.ClientResponseError():
            return "what it answers is no HTTP"
        case _:
            return f"no answer ({type(exc).__name__})"


def _distrust(error: Exception) -> str:
    """Why a certificate is not trusted, as OpenSSL's number says."""
    code = getattr(error, "verify_code", None)
    why = _DISTRUSTED.get(code or 0) or getattr(error, "verify_message", "")
    return f": {why}" if why else ""
