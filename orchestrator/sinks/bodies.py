"""Messages as HTTP bodies (docs/alerts.md) and as plain text; pure.

Must not: send, sign, or decide what is in an alert.
"""

import json
from collections.abc import Mapping
from typing import Any

from orchestrator.clock import utc_text
from orchestrator.core.model import Alert
from orchestrator.sinks.base import Message

_NOT_ENDED = "0001-01-01T00:00:00Z"
"""What Alertmanager sends for `endsAt` while an alert is firing."""

TEXT_LIMIT = 1500
"""Characters of a text for people; below the limits of nearly every chat."""

_TRACEBACK_TAIL = 12


def alertmanager(message: Message, receiver: str) -> dict[str, Any]:
    """The body of an Alertmanager webhook, version "4"."""
    firing = any(alert.status == "firing" for alert in message.alerts)
    common = _common([alert.labels for alert in message.alerts])
    return {
        "version": "4",
        "groupKey": f'{{}}:{{incident="{message.alerts[0].incident}"}}'
        if len(message.alerts) == 1
        else f'{{}}:{{digest="{message.id}"}}',
        "truncatedAlerts": 0,
        "status": "firing" if firing else "resolved",
        "receiver": receiver,
        "groupLabels": {key: common[key] for key in ("alertname", "job", "run") if common.get(key)},
        "commonLabels": common,
        "commonAnnotations": _common([alert.annotations for alert in message.alerts]),
        "externalURL": "",
        "alerts": [_alert(alert) for alert in message.alerts],
    }


def cloudevents(message: Message, receiver: str) -> dict[str, Any]:
    """A CloudEvents 1.0 event in structured mode; its `data` is the Alertmanager body."""
    first = message.alerts[0]
    one = len(message.alerts) == 1
    return {
        "specversion": "1.0",
        "id": message.id,
        "source": f"/orch/{first.labels.get('host', '')}",
        "type": f"orch.incident.{first.status}" if one else "orch.incident.digest",
        "subject": first.incident if one else message.id,
        "time": utc_text(first.starts_at if first.ends_at is None else first.ends_at),
        "datacontenttype": "application/json",
        "data": alertmanager(message, receiver),
    }


def encoded(body: Mapping[str, Any]) -> str:
    """The bytes that are signed and sent, as text."""
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"))


def title(message: Message) -> str:
    """One line for people."""
    first = message.alerts[0]
    if len(message.alerts) == 1:
        return first.annotations.get("summary", first.labels.get("alertname", ""))
    return f"{len(message.alerts)} incidents within a minute"


def text(message: Message) -> str:
    """A few lines for people, cut to what nearly every chat takes."""
    if len(message.alerts) > 1:
        lines = [f"- {alert.annotations.get('summary', '')}" for alert in message.alerts]
        return _cut("\n".join(lines), TEXT_LIMIT)
    notes = message.alerts[0].annotations
    tail = notes.get("traceback", "").splitlines()[-_TRACEBACK_TAIL:]
    parts = [
        notes.get("same_as", ""),
        notes.get("description", ""),
        "\n".join(tail) or notes.get("evidence", ""),
        notes.get("next_steps", ""),
        notes.get("command", ""),
    ]
    return _cut("\n\n".join(part for part in parts if part), TEXT_LIMIT)


def _alert(alert: Alert) -> dict[str, Any]:
    return {
        "status": alert.status,
        "labels": dict(alert.labels),
        "annotations": dict(alert.annotations),
        "startsAt": utc_text(alert.starts_at),
        "endsAt": _NOT_ENDED if alert.ends_at is None else utc_text(alert.ends_at),
        "generatorURL": "",
        "fingerprint": alert.fingerprint,
    }


def _common(sets: list[Mapping[str, str]]) -> dict[str, str]:
    first, *others = sets
    return {
        key: value for key, value in first.items() if all(one.get(key) == value for one in others)
    }


def _cut(whole: str, limit: int) -> str:
    if len(whole) <= limit:
        return whole
    half = (limit - 10) // 2
    return f"{whole[:half]}\n[...]\n{whole[-half:]}"
