"""What the outbox knows of one sink while it feeds it. Must not: send, or read the queue."""

import asyncio
from collections import deque
from dataclasses import dataclass, field

from orchestrator.sinks.base import Lookup, Sink


@dataclass(slots=True)
class Lane:
    """One sink, from the inventory that names it to the one that does not any more."""

    sink: Sink
    after: "asyncio.Task[None] | None" = None
    """Ends once an earlier sink of that name has let go of what it was sending."""
    serving: "asyncio.Task[None] | None" = None
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    requests: int = 0
    """Under way now."""
    in_flight: set[str] = field(default_factory=set)
    """Deliveries that these requests carry."""
    sent_at: deque[float] = field(default_factory=deque)
    """Monotonic times of messages within the window."""
    digest_at: float = float("-inf")
    paused_until: float = float("-inf")
    """Monotonic; the receiver's Retry-After."""
    gone: tuple[str | None, ...] | None = None
    """The values of its variables when it answered 410; another value is another receiver."""
    refused: tuple[str | None, ...] | None = None
    """The values of its variables when it refused; with others nobody waits for the next try."""
    checked: frozenset[tuple[str, int]] | None = None
    """The queue's hosts when what waited for its variables, or its return, was looked through."""
    error: str | None = None
    taken_at: float | None = None

    def state(self, lookup: Lookup) -> str:
        """`ready`, `unset` or `disabled`."""
        if self.missing(lookup):
            return "unset"
        return "disabled" if self.gone == self.values(lookup) else "ready"

    def missing(self, lookup: Lookup) -> tuple[str, ...]:
        """Names of the variables without a value."""
        return tuple(name for name in self.sink.wants() if not lookup(name))

    def values(self, lookup: Lookup) -> tuple[str | None, ...]:
        """What the sink's variables hold now."""
        return tuple(lookup(name) for name in self.sink.wants())
