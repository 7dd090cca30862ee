"""What happened to a run, in order: GET /v1/runs/RUN/timeline. It changes nothing.

Owns the words of each event. The store has them by noun: releases, attempts, incidents,
deliveries, actions, and the journal of what was decided and asked for.
"""

from collections.abc import Iterator
from typing import Any

from orchestrator.api import messages
from orchestrator.api.asking import asker
from orchestrator.core.decide.decision import ActionKind, Note, RunView
from orchestrator.core.model import ENDS, Attempt, Delivery
from orchestrator.daemon.parts import Parts
from orchestrator.store.actions import CANCELLED, PENDING, Recorded
from orchestrator.store.history import JournalEntry, ReleaseEntry

Message = dict[str, Any]
Events = Iterator[messages.TimelineEvent]
MOST_LINES = 2000
COMMAND = "command"

_ACTIONS = {
    ActionKind.STOP: "everything of the run was ended",
    ActionKind.COLLECT_EVIDENCE: "evidence was collected",
    ActionKind.END_REMAINS: "what the attempt before had left was ended",
}
"""What is worth a line; launches and relaunches show by what follows them."""


async def note_command(parts: Parts, run: str, command: str, **more: object) -> None:
    """Keep a person's word in the journal: who asked for what."""
    body = {"command": command, "by": asker.get(), **more}
    await parts.store.journal.add(Note(kind=COMMAND, body=body), run=run)


async def timeline(parts: Parts, words: str) -> Message:
    """GET /v1/runs/RUN/timeline: oldest first."""
    store = parts.store
    view = await store.view((await store.runs.find(words)).id)
    run = view.run
    found = [
        *_deploys(view, await store.releases.list(run.job, target=run.target)),
        *(event for attempt in view.attempts for event in _attempt(attempt)),
        *(event for one in await store.actions.of(run.id) for event in _action(one)),
    ]
    for incident in view.incidents:
        title = f"{incident.signature}: {incident.title}"
        found.append(_event(incident.opened_at, "incident", title, incident.id))
        found += map(_delivery, await store.deliveries.of_incident(incident.id))
    kept = await store.journal.of(run.id, limit=MOST_LINES)
    # A daemon that died over a chunk of metrics read its lines again.
    found += dict.fromkeys(event for entry in kept for event in _entry(entry))
    found.sort(key=lambda event: event.at)
    return {"run": run.id, "events": [event.to_json() for event in found]}


def _event(at: float, kind: str, text: str, ref: object = None) -> messages.TimelineEvent:
    return messages.TimelineEvent(
        at=at, kind=kind, text=text, ref=None if ref is None else str(ref)
    )


def _deploys(view: RunView, entries: tuple[ReleaseEntry, ...]) -> Events:
    """The deploy that the run is made of, and those that came while it lived."""
    run, own = view.run, False
    for entry in entries:
        digest, later = entry.release.digest, entry.at > run.created_at
        if later and entry.at <= (run.ended_at or entry.at):
            text = f"{entry.kind}: {digest}, while the run went on with its own"
            yield _event(entry.at, "deploy", text, digest)
        elif not later and not own and digest == run.release:
            own = True
            yield _event(entry.at, "deploy", f"{entry.kind}: {digest}", digest)


def _attempt(attempt: Attempt) -> Events:
    if attempt.started_at is not None:
        yield _event(attempt.started_at, "launch", f"attempt {attempt.number}", attempt.number)
    if attempt.ended_at is None:
        return
    how = "nobody saw how"
    if attempt.signal is not None:
        how = f"signal {attempt.signal}"
    elif attempt.exit_code is not None:
        how = f"exit code {attempt.exit_code}"
    text = f"attempt {attempt.number} ended: {how}"
    yield _event(attempt.ended_at, "end", text, attempt.number)


def _action(one: Recorded) -> Events:
    kind = one.action.kind
    if one.state == CANCELLED or kind not in _ACTIONS:
        return
    if one.state == PENDING:
        yield _event(one.created_at, "action", f"{kind} is under way", one.action.attempt)
    else:
        text = _ACTIONS[kind] if one.error is None else f"{kind} failed: {one.error}"
        yield _event(one.done_at or one.created_at, "action", text, one.action.attempt)


def _delivery(one: Delivery) -> messages.TimelineEvent:
    how = one.state if one.error is None else f"{one.state} ({one.error})"
    text = f"alert {one.alert.status} to {one.sink}: {how}"
    return _event(one.created_at, "action", text, one.alert.incident)


def _entry(entry: JournalEntry) -> Events:
    body = entry.body
    match entry.kind.partition("."):
        case ("command", _, _):
            more = ", ".join(
                f"{name} {value}" for name, value in body.items() if name not in ("command", "by")
            )
            text = f"{body['command']} by {body['by']}" + (f": {more}" if more else "")
            yield _event(entry.at, "command", text)
        case ("run", _, "phase"):
            yield _event(body["t"] or entry.at, "phase", str(body["phase"]), body["step"])
        case ("run", _, "backoff"):
            text = f"attempt {body['attempt'] + 1} waits for its time"
            yield _event(entry.at, "action", text, body["attempt"] + 1)
        case ("run", _, state) if state in ENDS:
            yield _event(entry.at, "end", state)
        case ("incident", _, "updated"):
            yield _event(entry.at, "finding", f"{body['signature']}, once more", body["incident"])
        case ("incident", _, what) if what != "opened":
            yield _event(entry.at, "incident", what, body["incident"])
        case ("end", _, "told"):
            text = "the run itself had alerted of its end: no daemon was there to"
            yield _event(entry.at, "action", text, body["incident"])
        case ("session", _, _):
            text = "its tmux session is gone" if body["detached"] else "its tmux session is back"
            yield _event(entry.at, "finding", text)
        case _:
            return
