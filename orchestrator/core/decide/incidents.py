"""Occurrences -> incidents: open, repeat, update by the verdict, resolve.

One incident is one fingerprint open on one run. What falls with a rank or thread that has just
died (a cascade) joins its incident; the verdict updates it. Must not: choose sinks or states.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from orchestrator.core.decide.decision import RunView
from orchestrator.core.decide.inputs import FindingSeen, VerdictReached
from orchestrator.core.findings import Certainty, Finding, Outcome, Role, Verdict
from orchestrator.core.model import Attempt, Incident, IncidentState, Severity, number_of

CASCADE_S = 60.0
"""What dies of a death dies within this time: NCCL's watchdog, elastic's table, other ranks."""

JOINED = "joined"
"""Key of an incident's document: fingerprints of what fell with it."""
MOST_JOINED = 100

WHILE_ALIVE = frozenset(
    {
        *("nan_loss", "gpu_fault", "hang", "blind", "expectation_failed", "throughput_drop"),
        *("straggler", "silent_eager", "output_lost"),
    }
)
"""Signatures that open an incident though nothing has ended yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Occurrence:
    """One time at which something went wrong, from a finding, a verdict or a failed action."""

    signature: str
    title: str
    severity: Severity
    fingerprint: str
    family: str | None
    ends: str | None
    document: Mapping[str, Any]
    """Kept in the incident: traceback, thread, rank, evidence, cause, next_steps, ..."""
    same_as: str | None = None
    conclusive: bool = False
    """A verdict: the last word on its attempt."""
    guessed: bool = False
    """Only an exit code says so; what was seen before says more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """An incident as it is now, and whether there is something new to tell."""

    incident: Incident
    opened: bool
    told: bool
    """Signature or severity is new: an alert is due."""


def of_finding(event: FindingSeen) -> Occurrence | None:
    """The occurrence that a finding is; None where nothing needed has ended."""
    finding = event.finding
    if not _opens(finding):
        return None
    document = {
        **finding.to_json(),
        "cause": event.cause,
        "next_steps": list(event.next_steps),
    }
    return Occurrence(
        signature=finding.signature,
        title=finding.title or finding.signature,
        severity=finding.severity,
        fingerprint=finding.fingerprint or _digest(finding.signature, finding.text),
        # What only hints at a failure must not swallow the failure itself when that comes.
        family=None
        if finding.role is Role.DIAGNOSTIC
        else _telling(finding.family, finding.signature),
        ends=finding.ends,
        document=document,
        same_as=event.same_as,
    )


def of_verdict(event: VerdictReached, attempt: Attempt | None) -> Occurrence:
    """The occurrence that a verdict on an attempt that did not go well is."""
    verdict = event.verdict
    signature, title = verdict.signature, verdict.title
    if signature is None:
        signature, title = _unnamed(attempt, event.gone)
    return Occurrence(
        signature=signature,
        title=title or signature,
        severity=verdict.severity if verdict.crash else Severity.CRITICAL,
        fingerprint=verdict.fingerprint or _digest(signature, title),
        family=_telling(verdict.family, signature),
        ends=verdict.ends or "process",
        document=verdict.to_json(),
        same_as=event.same_as,
        conclusive=True,
        guessed=verdict.certainty is Certainty.GUESS or verdict.signature is None,
    )


def verdict_of(incident: Incident, verdict: Verdict) -> Verdict:
    """The verdict on an attempt that was stopped for what this incident stands for."""
    found = incident.finding
    text = [str(found["text"])] if found.get("text") else []
    return replace(
        verdict,
        verdict=Outcome.HUNG if incident.signature == "hang" else Outcome.CRASHED,
        crash=True,
        signature=incident.signature,
        title=incident.title,
        severity=incident.severity,
        family=incident.family,
        fingerprint=incident.fingerprint,
        cause=str(found.get("cause") or ""),
        next_steps=tuple(found.get("next_steps") or ()),
        evidence=tuple(found.get("evidence") or text),
        certainty=Certainty.CERTAIN,
        certainty_reason="",
        ends="process",
    )


def of_failed_launch(text: str) -> Occurrence:
    """The occurrence that a launch which failed for good is."""
    return Occurrence(
        signature="launch_failed",
        title="the attempt could not be launched",
        severity=Severity.CRITICAL,
        fingerprint=_digest("launch_failed", ""),
        family=None,
        ends="process",
        document={"text": text, "cause": text, "evidence": text.splitlines()[:10]},
        conclusive=True,
    )


def observe(view: RunView, seen: Occurrence, now: float) -> Change:
    """The incident that the occurrence opens, repeats or updates."""
    known = _known(view, seen, now)
    if known is None:
        return Change(incident=_opened(view, seen, now), opened=True, told=True)
    later = known.attempt != view.run.attempt
    if not later and (not seen.conclusive or _says_less(seen, known)):
        # The first face of a death is the one to show until the verdict; a guess adds nothing.
        again = 0 if seen.conclusive else 1
        repeated = replace(
            known,
            occurrences=known.occurrences + again,
            updated_at=now,
            finding=_with_joined(known, seen),
        )
        return Change(incident=repeated, opened=False, told=False)
    updated = replace(
        known,
        attempt=view.run.attempt,
        signature=seen.signature,
        title=seen.title,
        severity=seen.severity,
        fingerprint=seen.fingerprint,
        family=seen.family,
        finding=_merged(known, seen),
        occurrences=known.occurrences + later,
        same_as=known.same_as or seen.same_as,
        updated_at=now,
    )
    new = (updated.signature, updated.severity) != (known.signature, known.severity)
    # Whoever acknowledged it was sent its `resolved`; nothing may follow that.
    told = new and known.state is IncidentState.OPEN
    return Change(incident=updated, opened=False, told=told)


def told_of(incidents: Iterable[Incident]) -> frozenset[str]:
    """Fingerprints of all that these incidents already stand for."""
    found: set[str] = set()
    for one in incidents:
        found |= {one.fingerprint, *one.finding.get(JOINED, ())}
    return frozenset(found)


def to_resolve(view: RunView, unresolved: Iterable[Incident]) -> tuple[Incident, ...]:
    """What a run that finished resolves: its own incidents and those of the job's earlier runs."""
    mine = {one.id: one for one in unresolved if number_of(one.run) <= view.run.number}
    mine |= {one.id: one for one in view.incidents}
    return tuple(one for one in mine.values() if one.state is not IncidentState.RESOLVED)


def _telling(family: str | None, signature: str) -> str | None:
    # A signature without a family of its own is its own one. Two of those (two python_errors) may
    # have nothing in common: of them only the fingerprint says that they are the same.
    return None if family == signature else family


def _opens(finding: Finding) -> bool:
    if finding.role in (Role.CASCADE, Role.CONFIRMATION, Role.TEARDOWN):
        return False
    return finding.ends is not None or finding.signature in WHILE_ALIVE


def _known(view: RunView, seen: Occurrence, now: float) -> Incident | None:
    living = [one for one in view.incidents if one.state is not IncidentState.RESOLVED]
    for one in living:
        if one.fingerprint == seen.fingerprint:
            return one
    for one in living:
        if seen.family is not None and one.family == seen.family:
            return one
    for one in reversed(living):
        fatal = one.finding.get("ends") is not None and seen.ends is not None
        near = seen.conclusive or now - one.updated_at <= CASCADE_S
        if fatal and near and one.attempt == view.run.attempt:
            return one
    return None


def _opened(view: RunView, seen: Occurrence, now: float) -> Incident:
    run = view.run
    nth = sum(1 for one in view.incidents if one.state is IncidentState.RESOLVED)
    return Incident(
        id=f"i{_digest(run.id, run.uid, seen.fingerprint, str(nth))}",
        run=run.id,
        attempt=run.attempt,
        fingerprint=seen.fingerprint,
        family=seen.family,
        signature=seen.signature,
        severity=seen.severity,
        title=seen.title,
        state=IncidentState.OPEN,
        opened_at=now,
        updated_at=now,
        same_as=seen.same_as,
        finding=seen.document,
    )


def _says_less(seen: Occurrence, known: Incident) -> bool:
    return seen.guessed and known.finding.get("ends") is not None


def _with_joined(known: Incident, seen: Occurrence) -> Mapping[str, Any]:
    """The document, with the fingerprint of what fell along: read again, it is known."""
    joined = list(known.finding.get(JOINED, ()))
    if seen.fingerprint == known.fingerprint or seen.fingerprint in joined:
        return known.finding
    return {**known.finding, JOINED: [*joined, seen.fingerprint][-MOST_JOINED:]}


_GONE = {
    "rebooted": "its host was rebooted",
    "restarted": "its container was stopped and started under it",
}
"""RelayGone's reasons that say more than the record which is missing."""


def _merged(known: Incident, seen: Occurrence) -> Mapping[str, Any]:
    """The newer document; what it lacks of the same failure is taken from the older one."""
    if seen.signature != known.signature:
        return seen.document
    kept = {
        name: known.finding[name]
        for name in ("traceback", "thread", "next_steps", "cause", JOINED)
        if known.finding.get(name) and not seen.document.get(name)
    }
    return {**seen.document, **kept}


def _unnamed(attempt: Attempt | None, gone: str | None) -> tuple[str, str]:
    if attempt is None or (attempt.exit_code is None and attempt.signal is None):
        how = _GONE.get(gone or "", "no exit record tells how it ended")
        return "lost", f"the process is gone, and {how}"
    if attempt.signal is not None:
        return "killed", f"ended by signal {attempt.signal}"
    return "failed_exit", f"ended with exit code {attempt.exit_code}"


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:10]
