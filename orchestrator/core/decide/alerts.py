"""Incident -> alert: its labels and annotations (docs/alerts.md).

An alert's id follows from the incident and what is new in it, so that the same message made twice
is the same message. Must not: choose sinks, or know of HTTP.
"""

from collections.abc import Mapping
from typing import Any

from orchestrator.core.model import Alert, Incident, Job, Target
from orchestrator.core.model.labels import alert_labels

MAX_TRACEBACK_BYTES = 16 * 1024
MAX_EVIDENCE_LINES = 10
MAX_LINE_CHARS = 500

FIRING = "firing"
RESOLVED = "resolved"


def firing(incident: Incident, job: Job, target: Target, *, outlook: str = "") -> Alert:
    """The alert that an incident is open; `outlook` says what happens next, where that is known."""
    parts = (incident.id, FIRING, incident.signature, incident.severity)
    return _alert(incident, job, target, "-".join(parts), FIRING, outlook)


def given_up(incident: Incident, job: Job, target: Target, *, outlook: str) -> Alert:
    """The alert that an incident which was being restarted is not any more."""
    ident = f"{incident.id}-{FIRING}-given-up-{incident.attempt}"
    return _alert(incident, job, target, ident, FIRING, outlook)


def reminder(incident: Incident, job: Job, target: Target, due_s: int) -> Alert:
    """The alert that an incident is open still; `due_s` makes each one a message of its own."""
    ident = f"{incident.id}-{FIRING}-reminder-{due_s}s"
    outlook = "Still open: `orch ack` it, and nothing more is sent."
    return _alert(incident, job, target, ident, FIRING, outlook)


def resolved(incident: Incident, job: Job, target: Target, *, outlook: str) -> Alert:
    """The alert that an incident is over; `outlook` says why."""
    return _alert(incident, job, target, f"{incident.id}-{RESOLVED}", RESOLVED, outlook)


def same_as_text(same_as: str | None) -> str:
    """`same as run 1: not a fix`, or nothing."""
    if same_as is None:
        return ""
    return f"same as run {same_as.rpartition('-')[2]}: not a fix"


def cut_middle(text: str, limit: int = MAX_TRACEBACK_BYTES) -> str:
    """The text in at most `limit` UTF-8 bytes, its middle cut out and marked."""
    whole = text.encode("utf-8", "replace")
    if len(whole) <= limit:
        return text
    room = limit - 60
    head = whole[: room // 3].decode("utf-8", "ignore").rpartition("\n")[0]
    tail = whole[-(room - room // 3) :].decode("utf-8", "ignore").partition("\n")[2]
    if not head or not tail:
        head = whole[: room // 3].decode("utf-8", "ignore")
        tail = whole[-(room - room // 3) :].decode("utf-8", "ignore")
    missing = len(whole) - len(head.encode()) - len(tail.encode())
    return f"{head}\n[... {missing} bytes cut ...]\n{tail}"


def plain_text(text: str) -> str:
    """Without what a terminal or a chat would act on: remote output is not trusted."""
    return "".join(char if char.isprintable() or char in "\n\t" else "?" for char in text)


def _alert(
    incident: Incident, job: Job, target: Target, ident: str, status: str, outlook: str
) -> Alert:
    return Alert(
        id=ident,
        incident=incident.id,
        status=status,
        labels=alert_labels(
            job,
            target,
            alertname=incident.signature,
            severity=incident.severity,
            run=incident.run,
            attempt=incident.attempt,
            rank=incident.finding.get("rank"),
        ),
        annotations=_annotations(incident, target, status, outlook),
        starts_at=incident.opened_at,
        ends_at=incident.resolved_at if status == RESOLVED else None,
        fingerprint=incident.fingerprint,
    )


def _annotations(incident: Incident, target: Target, status: str, outlook: str) -> dict[str, str]:
    found = incident.finding
    texts = {
        "summary": _summary(incident, target, status),
        "description": " ".join(part for part in (str(found.get("cause", "")), outlook) if part),
        "evidence": _evidence(found),
        "traceback": cut_middle(plain_text(str(found.get("traceback") or ""))),
        "thread": str(found.get("thread") or ""),
        "next_steps": "\n".join(
            f"{number}. {step}" for number, step in enumerate(found.get("next_steps") or (), 1)
        ),
        "same_as": same_as_text(incident.same_as),
        "command": f"orch explain {incident.id}",
    }
    return {name: plain_text(text) for name, text in texts.items()}


def _summary(incident: Incident, target: Target, status: str) -> str:
    where = f"{incident.run} on {target.name}"
    if status == RESOLVED:
        return f"{where}: resolved: {incident.title}"
    same = f" ({same_as_text(incident.same_as)})" if incident.same_as else ""
    return f"{where}: {_lost(incident.finding)}{incident.title}{same}"


def _lost(found: Mapping[str, Any]) -> str:
    """Which thread or rank is gone, where it was not the whole process."""
    if found.get("ends") == "thread":
        return f"{found.get('thread') or 'a thread'} died: "
    if found.get("ends") == "rank" and found.get("rank") is not None:
        return f"rank {found['rank']} died: "
    return ""


def _evidence(found: Mapping[str, Any]) -> str:
    lines = [str(line) for line in found.get("evidence") or ()]
    if not lines and found.get("text"):
        lines = [f"{found['line']}: {found['text']}" if found.get("line") else str(found["text"])]
    return "\n".join(line[:MAX_LINE_CHARS] for line in lines[:MAX_EVIDENCE_LINES])
