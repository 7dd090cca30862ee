"""Alerts as short texts through Apprise: Slack, Discord, ntfy, mail and a hundred more.

Apprise is loaded at the first message, and works in threads of its own, one an address. Must not:
show an address, which holds the secret.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from orchestrator.core.model import SinkSpec
from orchestrator.sinks import bodies
from orchestrator.sinks.base import Lookup, Message, Outcome, Result, refused, taken

DEADLINE_S = 30.0
THREADS = 32
MOST_REMEMBERED = 1000
"""Messages of which it is known that some addresses have them."""

_KINDS = {"critical": "failure", "warning": "warning", "info": "info"}

_Told = dict[str, asyncio.Future[bool]]
"""By address: whether it took a message; not known while it has not answered."""


class AppriseSink:
    """One or more Apprise addresses, separated by spaces, commas or semicolons."""

    type = "apprise"

    def __init__(self, spec: SinkSpec, deadline_s: float = DEADLINE_S) -> None:
        self.name = spec.name
        self._url_env = spec.url_env or ""
        self._deadline_s = deadline_s
        self._told: OrderedDict[str, _Told] = OrderedDict()
        """By the id of a message that not all addresses took."""
        self._threads = _threads()

    def wants(self) -> tuple[str, ...]:
        """The address."""
        return (self._url_env,)

    async def send(self, message: Message, lookup: Lookup) -> Result:
        """Notify all at the same time; refused where one did not take it.

        Sent again, it goes to those that refused; one without an answer so far is waited for.
        """
        told = self._told.pop(message.id, {})
        result = await self._tell(message, lookup(self._url_env) or "", told)
        if result.outcome is Outcome.REFUSED:
            self._told[message.id] = told
            while len(self._told) > MOST_REMEMBERED:
                self._told.popitem(last=False)
        return result

    async def close(self) -> None:
        """Drop what has not begun; an outbox that begins anew may send again."""
        before, self._threads = self._threads, _threads()
        before.shutdown(wait=False, cancel_futures=True)

    async def _tell(self, message: Message, value: str, told: _Told) -> Result:
        """`told` grows by each address that is notified."""
        loop = asyncio.get_running_loop()
        plugins: Mapping[str, Any] = {}
        try:
            async with asyncio.timeout(self._deadline_s):
                plugins = await loop.run_in_executor(self._threads, _plugins, value)
                if not plugins or not all(plugins.values()):
                    return refused(f"the value of {self._url_env} is no address that Apprise knows")
                for address, plugin in plugins.items():
                    if address not in told or (told[address].done() and not _took(told[address])):
                        told[address] = loop.run_in_executor(
                            self._threads, _notify, plugin, message
                        )
                await asyncio.wait({told[address] for address in plugins})
        except TimeoutError:
            if not plugins:
                return refused(f"no answer within {self._deadline_s:g} s")
        return self._summed_up(plugins, told)

    def _summed_up(self, plugins: Mapping[str, Any], told: _Told) -> Result:
        names = {address: str(plugin.service_name) for address, plugin in plugins.items()}
        late = [name for address, name in names.items() if not told[address].done()]
        answered = {address: name for address, name in names.items() if told[address].done()}
        missing = [name for address, name in answered.items() if not _took(told[address])]
        faults = [f"{', '.join(missing)} did not take it"] if missing else []
        if late:
            faults.append(f"no answer from {', '.join(late)} within {self._deadline_s:g} s")
        return refused("; ".join(faults)) if faults else taken(", ".join(names.values()))


def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(THREADS, thread_name_prefix="apprise")


def _took(answer: asyncio.Future[bool]) -> bool:
    return not answer.cancelled() and answer.exception() is None and answer.result()


def _plugins(value: str) -> dict[str, Any]:
    """Address -> what notifies it; None for what Apprise does not know."""
    import apprise
    from apprise.utils.parse import parse_urls

    # Word by word: within one text, Apprise takes what is no address for a part of the one before.
    split: Callable[[str], list[str]] = parse_urls
    words = [one for word in value.split() for one in split(word.strip(",;"))]
    return {one: apprise.Apprise.instantiate(one) for one in words}


def _notify(plugin: Any, message: Message) -> bool:
    import apprise

    first = message.alerts[0]
    kind = _KINDS.get(first.labels.get("severity", ""), "info")
    plugin.overflow_mode = apprise.OverflowMode.TRUNCATE
    hub = apprise.Apprise()
    hub.add(plugin)
    sent = hub.notify(
        title=bodies.title(message),
        body=bodies.text(message),
        notify_type="success" if first.status == "resolved" else kind,
    )
    return bool(sent)
