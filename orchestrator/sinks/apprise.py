"""Alerts as short texts through Apprise: Slack, Discord, ntfy, mail and a hundred more.

Apprise is loaded at the first message, and works in a thread. Must not: show its address, which
holds the secret.
"""

import asyncio
from collections import OrderedDict
from typing import Any

from orchestrator.core.model import SinkSpec
from orchestrator.sinks import bodies
from orchestrator.sinks.base import Lookup, Message, Outcome, Result, refused, taken

DEADLINE_S = 30.0
MOST_REMEMBERED = 1000
"""Messages of which it is known that some addresses have them."""

_KINDS = {"critical": "failure", "warning": "warning", "info": "info"}


class AppriseSink:
    """One or more Apprise addresses, separated by spaces."""

    type = "apprise"

    def __init__(self, spec: SinkSpec) -> None:
        self.name = spec.name
        self._url_env = spec.url_env or ""
        self._have: OrderedDict[str, set[str]] = OrderedDict()
        """Addresses that took a message which another one refused, by the message's id."""

    def wants(self) -> tuple[str, ...]:
        """The address."""
        return (self._url_env,)

    async def send(self, message: Message, lookup: Lookup) -> Result:
        """Notify; refused where not all of the addresses took it, and then sent to the others."""
        addresses = (lookup(self._url_env) or "").split()
        have = self._have.pop(message.id, set())
        try:
            async with asyncio.timeout(DEADLINE_S):
                result = await asyncio.to_thread(_notify, addresses, have, message, self._url_env)
        except TimeoutError:
            result = refused(f"no answer within {DEADLINE_S:g} s")
        if result.outcome is Outcome.REFUSED and have:
            self._have[message.id] = have
            while len(self._have) > MOST_REMEMBERED:
                self._have.popitem(last=False)
        return result

    async def close(self) -> None:
        """Nothing is kept open."""


def _notify(addresses: list[str], have: set[str], message: Message, url_env: str) -> Result:
    """Notify the addresses that do not have it; `have` grows by each one that takes it."""
    import apprise

    plugins: dict[str, Any] = {one: apprise.Apprise.instantiate(one) for one in addresses}
    if not all(plugins.values()):
        return refused(f"the value of {url_env} is no address that Apprise knows")
    first = message.alerts[0]
    kind = _KINDS.get(first.labels.get("severity", ""), "info")
    for address, plugin in plugins.items():
        if address in have:
            continue
        plugin.overflow_mode = apprise.OverflowMode.TRUNCATE
        hub = apprise.Apprise()
        hub.add(plugin)
        if hub.notify(
            title=bodies.title(message),
            body=bodies.text(message),
            notify_type="success" if first.status == "resolved" else kind,
        ):
            have.add(address)
    names = {address: str(plugin.service_name) for address, plugin in plugins.items()}
    missing = ", ".join(name for address, name in names.items() if address not in have)
    return refused(f"{missing} did not take it") if missing else taken(", ".join(names.values()))
