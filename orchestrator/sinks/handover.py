"""What a relay is handed of the sinks, so that it can alert where no daemon is there to.

Owns which sinks that are and in what form; the relay's side is probe/own_alert.py. Values leave in
the launch alone. Must not: send.
"""

import base64
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from yarl import URL

from orchestrator.core.model import SinkSpec
from orchestrator.sinks.base import Lookup
from orchestrator.sinks.webhook import checked_url, key_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Receiver:
    """Where one sink's messages go; without a secret."""

    name: str
    host: str
    port: int


def receivers(sinks: Iterable[SinkSpec], lookup: Lookup) -> tuple[Receiver, ...]:
    """Whom relays would alert, as far as their addresses are known."""
    places = ((one.name, _url(one, lookup)) for one in sinks if one.wrapper_alert)
    return tuple(
        Receiver(name=name, host=str(url.host), port=url.port or 80)
        for name, url in places
        if url is not None
    )


def handed(sinks: Iterable[SinkSpec], lookup: Lookup) -> list[dict[str, Any]]:
    """Name, address, keys and format of each sink that has them all; the wire's own words."""
    found = []
    for one in sinks:
        url = _url(one, lookup) if one.wrapper_alert else None
        keys = _keys(one, lookup)
        if url is not None and keys:
            # Percent-encoded and IDNA: the relay takes it apart with the standard library.
            found.append({"name": one.name, "url": str(url), "keys": keys, "format": one.format})
    return found


def _url(sink: SinkSpec, lookup: Lookup) -> URL | None:
    return checked_url(lookup(sink.url_env or "") or "")


def _keys(sink: SinkSpec, lookup: Lookup) -> list[str]:
    secrets = (lookup(sink.secret_env) or "").split() if sink.secret_env else []
    try:
        return [base64.b64encode(key_of(one)).decode() for one in secrets]
    except ValueError:
        return []
