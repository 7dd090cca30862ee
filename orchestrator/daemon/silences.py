"""Silences and acknowledgements: what a person does not want to hear (again).

Owns their words in the API. Which alerts they keep back is core/decide/routes.py's to say.
"""

from collections.abc import Mapping
from typing import Any

from orchestrator.api import messages
from orchestrator.core.decide.decision import Silence
from orchestrator.core.errors import UsageError
from orchestrator.core.inventory.matches import Known
from orchestrator.core.inventory.nearest import nearest
from orchestrator.daemon import queries
from orchestrator.daemon.parts import Parts
from orchestrator.daemon.timeline import note_command

Message = dict[str, Any]
LONGEST_S = 30 * 86_400.0
LASTING = "what is to last stands under `alerts.silences` of the inventory."


async def acknowledge(parts: Parts, words: str) -> Message:
    """POST /v1/incidents/INCIDENT/ack."""
    incident = await parts.store.incidents.find(words)
    await note_command(parts, incident.run, "ack", incident=incident.id)
    await parts.crew.heeding.acknowledge(incident)
    return await queries.incident(parts, incident.id)


async def silences(parts: Parts, query: Mapping[str, str]) -> Message:
    """GET /v1/silences: the inventory's own first, then those of people, oldest first."""
    declared = [
        messages.SilenceView(
            id=None, match=dict(match), until=None, why="", created_at=None, expired=False
        )
        for match in parts.inventory.alerts.silences
    ]
    said = [_view(one, parts.clock.now()) for one in await parts.store.silences.list()]
    shown = said if query.get("all") else [one for one in said if not one["expired"]]
    return {"silences": [*declared, *shown]}


async def add(parts: Parts, body: Mapping[str, Any]) -> Message:
    """POST /v1/silences: from now on alerts with these labels are kept back."""
    match, for_s = body.get("match"), body.get("for_s")
    if not isinstance(match, dict) or not all(isinstance(one, str) for one in match.values()):
        raise UsageError("`match` is an object: label -> value.")
    await _known_words(parts, match)
    if for_s is None:
        raise UsageError(
            "A silence needs its end: one that is forgotten hides the alert that matters.",
            remedy=f"Say how long, as in --for 2h; {LASTING}",
        )
    if not isinstance(for_s, int | float) or not 0 < for_s <= LONGEST_S:
        raise UsageError(
            f"A silence lasts above 0 s and {LONGEST_S / 86_400:g} days at most.",
            remedy=f"Say less, and silence again then; {LASTING}",
        )
    now = parts.clock.now()
    why = str(body.get("why") or "")
    silence = await parts.store.silences.add(match, until=now + for_s, why=why)
    return dict(_view(silence, now))


async def _known_words(parts: Parts, match: Mapping[str, str]) -> None:
    """UsageError for a word that no alert has: such a silence would keep nothing back."""
    inventory = parts.inventory
    past = {run.job for run in await parts.store.runs.list()}
    known = Known.of(
        jobs={*inventory.jobs, *past},
        targets={name: target.labels for name, target in inventory.targets.items()},
        hosts=inventory.hosts,
        rules=[str(rule.get("class") or rule.get("name")) for rule in inventory.rules],
    )
    for unknown in known.unknown(match):
        said = f"{unknown.label}={match[unknown.label]}: {unknown.text}"
        raise UsageError(said + nearest(unknown.word, unknown.choices))


async def expire(parts: Parts, words: str) -> Message:
    """POST /v1/silences/ID/expire: alerts are heard again."""
    known = await parts.store.silences.list()
    meant = [one for one in known if one.id == words] or [
        one for one in known if one.id.startswith(words)
    ]
    if len(meant) != 1:
        several = f"is the beginning of {len(meant)} silences" if meant else "is no silence's id"
        raise UsageError(f"{words} {several}.", remedy="`orch silence ls` lists them.")
    await parts.store.silences.expire(meant[0].id)
    over = next(one for one in await parts.store.silences.list() if one.id == meant[0].id)
    return dict(_view(over, parts.clock.now()))


def _view(silence: Silence, now: float) -> messages.SilenceView:
    return messages.SilenceView(
        id=silence.id,
        match=dict(silence.match),
        until=silence.until,
        why=silence.why,
        created_at=silence.created_at,
        expired=silence.until is not None and silence.until <= now,
    )
