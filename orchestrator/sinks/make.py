"""The inventory's `alerts.sinks` -> sinks."""

from orchestrator.clock import Clock
from orchestrator.core.model import SinkSpec
from orchestrator.sinks.apprise import AppriseSink
from orchestrator.sinks.base import Sink
from orchestrator.sinks.command import CommandSink
from orchestrator.sinks.webhook import WebhookSink


def make_sinks(specs: tuple[SinkSpec, ...], clock: Clock) -> tuple[Sink, ...]:
    """One sink a spec; the inventory has refused unknown types already."""
    return tuple(_make(spec, clock) for spec in specs)


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
