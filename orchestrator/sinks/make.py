"""The inventory's `alerts.sinks` -> sinks."""

from orchestrator.clock import Clock
from orchestrator.core.model import SinkSpec
from orchestrator.sinks.apprise import AppriseSink
from orchestrator.sinks.base import Sink
from orchestrator.sinks.command import CommandSink
from orchestrator.sinks.webhook import WebhookSink


class Rack:
    """Makes sinks, each once for as long as its spec stays as it is."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._made: dict[SinkSpec, Sink] = {}

    def sinks(self, specs: tuple[SinkSpec, ...]) -> tuple[Sink, ...]:
        """One sink a spec; the inventory has refused unknown types already."""
        self._made = {spec: self._made.get(spec) or _make(spec, self._clock) for spec in specs}
        return tuple(self._made.values())


def _make(spec: SinkSpec, clock: Clock) -> Sink:
    match spec.type:
        case "webhook":
            return WebhookSink(spec, clock)
        case "apprise":
            return AppriseSink(spec)
        case "command":
            return CommandSink(spec)
        case _:
            raise ValueError(f"sink {spec.name} has the unknown type {spec.type}")
