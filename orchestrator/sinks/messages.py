"""Deliveries -> the message of one request; pure but for the test alert's id.

Must not: send.
"""

from collections.abc import Callable
from dataclasses import replace

from orchestrator.clock import Clock
from orchestrator.core.model import Alert, Delivery
from orchestrator.sinks.base import Message

DIGEST_TRACEBACK_CHARS = 1000


def message_of(bundle: tuple[Delivery, ...]) -> Message:
    """One alert, or all alerts of a digest with the ends of their tracebacks."""
    if len(bundle) == 1 and bundle[0].digest is None:
        return Message(id=bundle[0].alert.id, alerts=(bundle[0].alert,))
    return Message(
        id=bundle[0].digest or bundle[0].alert.id,
        alerts=tuple(_shortened(one.alert) for one in bundle),
    )


def _shortened(alert: Alert) -> Alert:
    whole = alert.annotations.get("traceback", "")
    if len(whole) <= DIGEST_TRACEBACK_CHARS:
        return alert
    end = whole[-DIGEST_TRACEBACK_CHARS:]
    return replace(alert, annotations={**alert.annotations, "traceback": f"[...]\n{end}"})


def covered(message: Message, cover: Callable[[str], str]) -> Message:
    """The message with each of its texts covered; labels are words of ours."""
    return replace(
        message,
        alerts=tuple(
            replace(one, annotations={name: cover(text) for name, text in one.annotations.items()})
            for one in message.alerts
        ),
    )


def test_message(clock: Clock) -> Message:
    """What `orch alert test` sends."""
    now = clock.now()
    ident = f"test-{clock.new_id(16)}"
    summary = "orch: a test alert; the sink works"
    alert = Alert(
        id=ident,
        incident=ident,
        status="firing",
        labels={"alertname": "orch_test", "severity": "info"},
        annotations={"summary": summary, "description": "Sent by `orch alert test`."},
        starts_at=now,
        ends_at=None,
        fingerprint="test",
    )
    return Message(id=ident, alerts=(alert,))
