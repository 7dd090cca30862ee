"""What the daemon tells of itself, of incidents in whole sentences, and of its sinks."""

import os
from collections.abc import Mapping
from typing import Any

from orchestrator.api import messages
from orchestrator.core.model import Incident, Run
from orchestrator.daemon.environment import wanted_names
from orchestrator.daemon.parts import Parts
from orchestrator.daemon.shipping import find_job
from orchestrator.sinks.base import Outcome

Message = dict[str, Any]


async def daemon_view(parts: Parts, version: str) -> messages.DaemonView:
    """The daemon as `orch daemon status` shows it."""
    sinks = [
        messages.SinkView(
            name=sink.name,
            type=sink.type,
            state=sink.state,
            error=sink.error or (f"set {' and '.join(sink.missing)}" if sink.missing else None),
            pending=sink.pending,
        )
        for sink in await parts.outbox.status()
    ]
    inventory = parts.inventory
    jobs = []
    for job in inventory.jobs.values():
        entry = await parts.store.releases.current(job.name, job.target.name)
        jobs.append(
            {
                "name": job.name,
                "targets": [target.name for target in job.targets],
                "session": job.session or job.name,
                "package": job.package,
                "workdir": job.workdir,
                "release": entry.release.digest if entry else None,
            }
        )
    return messages.DaemonView(
        running=True,
        pid=os.getpid(),
        socket=str(parts.location.socket),
        version=version,
        inventory=str(parts.location.inventory),
        inventory_error=parts.file.error,
        state_folder=str(parts.location.state_folder),
        started_at=parts.started_at,
        needs=parts.needs(),
        wants=wanted_names(inventory),
        sinks=sinks,
        jobs=jobs,
    )


async def top(parts: Parts) -> Message:
    """GET /v1/top: the targets with their GPUs."""
    return {"targets": parts.board.views("targets")}


async def releases(parts: Parts, query: Mapping[str, str]) -> Message:
    """GET /v1/releases: what was deployed of a job, newest first."""
    job = find_job(parts.inventory, query.get("job") or None)
    entries = await parts.store.releases.list(job.name)
    return {
        "releases": [
            {
                "job": entry.job,
                "target": entry.target,
                "digest": entry.release.digest,
                "path": entry.release.path,
                "files": entry.release.files,
                "bytes": entry.release.bytes,
                "at": entry.at,
                "kind": entry.kind,
                "provenance": dict(entry.provenance),
            }
            for entry in entries
        ]
    }


async def alert_test(parts: Parts, sink: str | None) -> Message:
    """POST /v1/alert-test: one test alert to a sink, or to all."""
    names = [sink] if sink else [status.name for status in await parts.outbox.status()]
    results = []
    for name in names:
        result = await parts.outbox.test(name)
        results.append({"sink": name, "ok": result.outcome is Outcome.TAKEN, "text": result.text})
    return {"results": results}


async def explain(parts: Parts, words: str) -> Message:
    """GET /v1/incidents/INCIDENT/explain: what a colleague would say."""
    incident = await parts.store.incidents.find(words)
    run = await parts.store.runs.get(incident.run)
    before = await _occurrences(parts, run, incident)
    return {
        "incident": incident.id,
        "run": run.id,
        "why": run.why,
        "finding": dict(incident.finding),
        "signature": incident.signature,
        "title": incident.title,
        "same_as": incident.same_as,
        "seen_before": before,
        "text": _text(run, incident, before),
    }


async def _occurrences(parts: Parts, run: Run, incident: Incident) -> list[Message]:
    """Earlier incidents of the job that are the same failure, or another face of it."""
    found = []
    for other in await parts.store.incidents.list(unresolved=False):
        same = other.fingerprint == incident.fingerprint
        family = incident.family is not None and other.family == incident.family
        if other.opened_at >= incident.opened_at or not (same or family):
            continue
        earlier = await parts.store.runs.get(other.run)
        if earlier.job == run.job:
            found.append(
                {
                    "run": earlier.id,
                    "number": earlier.number,
                    "why": earlier.why,
                    "at": other.opened_at,
                    "signature": other.signature,
                    "release": earlier.release,
                }
            )
    return sorted(found, key=lambda item: item["number"])


def _text(run: Run, incident: Incident, before: list[Message]) -> str:
    finding = incident.finding
    lines = [f"run {run.number} of {run.job}: {incident.title} ({incident.signature})"]
    if finding.get("thread"):
        lines.append(f"thread: {finding['thread']}")
    for key, word in (("in_app_frame", "your code"), ("frame", "innermost frame")):
        if frame := finding.get(key):
            lines.append(f"{word}: {frame['file']}:{frame['line']} in {frame['function']}")
    if finding.get("cause"):
        lines += ["", f"Why: {finding['cause']}"]
    if before:
        lines += ["", f"Seen before, {len(before)} times; same as run {before[0]['number']}:"]
        lines += [
            f"  run {item['number']}: {item['why'] or 'no reason given'}: not a fix"
            for item in before
        ]
    if steps := finding.get("next_steps"):
        lines += ["", "Next:", *(f"  {n}. {step}" for n, step in enumerate(steps, 1))]
    if finding.get("traceback"):
        lines += ["", "Evidence:", str(finding["traceback"])]
    return "\n".join(lines)
