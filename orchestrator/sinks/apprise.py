"""Alerts as short texts through Apprise: Slack, Discord, ntfy, mail and a hundred more.

Apprise is loaded at the first message, and works in a thread. Must not: show its address, which
holds the secret.
"""

import asyncio
from typing import Any

from orchestrator.core.model import SinkSpec
from orchestrator.sinks import bodies
from orchestrator.sinks.base import Lookup, Message, Result, refused, taken

DEADLINE_S = 30.0

_KINDS = {"critical": "failure", "warning": "warning", "info": "info"}


class AppriseSink:
    """One or more Apprise addresses, separated by spaces."""

    type = "apprise"

    def __init__(self, spec: SinkSpec) -> None:
        self.name = spec.name
        self._url_env = spec.url_env or ""

    def wants(self) -> tuple[str, ...]:
        """The address."""
        return (self._url_env,)

    async def send(self, message: Message, lookup: Lookup) -> Result:
        """Notify; refused where not all of the addresses took it."""
        addresses = (lookup(self._url_env) or "").split()
        try:
            async with asyncio.timeout(DEADLINE_S):
                return await asyncio.to_thread(_notify, addresses, message, self._url_env)
        except TimeoutError:
            return refused(f"no answer within {DEADLINE_S:g} s")

    async def close(self) -> None:
        """Nothing is kept open."""


def _notify(addresses: list[str], message: Message, url_env: str) -> Result:
    import apprise

    hub = apprise.Apprise()
    for address in addresses:
        if not hub.add(address):
            return refused(f"the value of {url_env} is no address that Apprise knows")
    plugin: Any
    for plugin in hub:
        plugin.overflow_mode = apprise.OverflowMode.TRUNCATE
    first = message.alerts[0]
    kind = _KINDS.get(first.labels.get("severity", ""), "info")
    sent = hub.notify(
        title=bodies.title(message),
        body=bodies.text(message),
        notify_type="success" if first.status == "resolved" else kind,
    )
    names = ", ".join(str(plugin.service_name) for plugin in hub)
    return taken(names) if sent else refused(f"{names} did not take it")
