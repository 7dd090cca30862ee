"""Where alerts go: the outbox, and the sinks it feeds (webhook, apprise, command)."""

from orchestrator.sinks.base import Message, Outcome, Queue, Result, Sink, SinkStatus
from orchestrator.sinks.make import Rack
from orchestrator.sinks.outbox import Outbox

__all__ = ["Message", "Outbox", "Outcome", "Queue", "Rack", "Result", "Sink", "SinkStatus"]
