"""What a sink is, what it is given and what it answers; and the queue that the outbox is given.

Must not: know the store or any receiver.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from orchestrator.core.model import Alert, Delivery

Lookup = Callable[[str], str | None]
"""Value of a variable by its name; None where it is found nowhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """What one request carries: one alert, or several of them as a digest."""

    id: str
    """The same whenever the message is sent again."""
    alerts: tuple[Alert, ...]


class Outcome(StrEnum):
    """What became of a message."""

    TAKEN = "taken"
    REFUSED = "refused"
    """To be sent again."""
    GONE = "gone"
    """The receiver wants nothing more (410)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A sink's answer; `text` names no address and no secret."""

    outcome: Outcome
    text: str
    retry_after_s: float | None = None


def taken(text: str) -> Result:
    """The receiver has it."""
    return Result(outcome=Outcome.TAKEN, text=text)


def refused(text: str, retry_after_s: float | None = None) -> Result:
    """It is to be sent again, not before `retry_after_s`."""
    return Result(outcome=Outcome.REFUSED, text=text, retry_after_s=retry_after_s)


class Sink(Protocol):
    """A place that alerts go to."""

    name: str
    type: str

    def wants(self) -> tuple[str, ...]:
        """Names of the variables that it cannot do without."""
        ...

    async def send(self, message: Message, lookup: Lookup) -> Result:
        """Send within a deadline of its own; what a receiver does wrong is a Result, no error."""
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...


class Queue(Protocol):
    """The durable queue, as `store.deliveries` has it."""

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Call `listener` whenever something was enqueued."""
        ...

    def hosts(self) -> frozenset[tuple[str, int]]:
        """Whose alerts are seen here, each with its lease's token; another one is another time."""
        ...

    async def heads(self, sink: str, limit: int) -> tuple[Delivery, ...]:
        """The first pending delivery of each incident to a sink, the one due first in front."""
        ...

    async def bundle(self, ids: tuple[str, ...], digest: str) -> None:
        """From now on they are one message."""
        ...

    async def bundled(self, digest: str) -> tuple[Delivery, ...]:
        """What is still pending of a bundled message."""
        ...

    async def delivered(self, ids: tuple[str, ...], at: float) -> None:
        """The sink took them."""
        ...

    async def failed(self, ids: tuple[str, ...], error: str, next_at: float) -> None:
        """They are due again at `next_at`."""
        ...

    async def hurry(self, sink: str, now: float) -> None:
        """What failed before is due now: its receiver is another one."""
        ...

    async def mark_unset(self, sink: str) -> None:
        """What is pending was stored while the sink had no address."""
        ...

    async def forget_over(self, sink: str) -> None:
        """Of what was marked, incidents that nobody waits for any more are not told."""
        ...

    async def disable(self, sink: str, error: str) -> None:
        """Nothing of the sink is pending any more."""
        ...

    async def revive(self, sink: str) -> None:
        """What was disabled is pending again, marked like what was stored while it was unset."""
        ...

    async def counts(self) -> Mapping[str, Mapping[str, int]]:
        """Number of deliveries by sink and state."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkStatus:
    """How a sink does."""

    name: str
    type: str
    state: str
    """`ready`, `unset` (a variable has no value), `disabled` (the receiver said 410), `removed`
    (not in the inventory any more, and alerts wait for it)."""
    missing: tuple[str, ...]
    """Names of the variables without a value."""
    error: str | None
    """Why the newest message was refused; None once one was taken."""
    pending: int
    disabled: int
    """Deliveries that a disabled sink never got."""
    taken_at: float | None
    """When a message was taken last, by this daemon."""
