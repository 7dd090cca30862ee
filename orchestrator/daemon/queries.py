"""What a person reads of the daemon: runs, logs, incidents, metrics. It changes nothing."""

import asyncio
import json
import re
from collections.abc import Mapping
from typing import Any

from orchestrator.api import messages
from orchestrator.api.server import LogRange
from orchestrator.core.errors import NoSuchRun, UsageError
from orchestrator.core.explain import attempts_told
from orchestrator.core.model import Incident, Run, RunState
from orchestrator.daemon.moments import offset_since
from orchestrator.daemon.parts import Parts
from orchestrator.daemon.shipping import find_job
from orchestrator.daemon.views import gpu_view, incident_view
from orchestrator.store import points

Message = dict[str, Any]
NEWEST = 20
TAIL_BYTES = 1024 * 1024
MAX_RANGE_BYTES = 8 * 1024 * 1024
METRICS_BYTES = 64 * 1024 * 1024


def number(query: Mapping[str, str], name: str) -> int | None:
    """A whole number of a query; UsageError where it is none."""
    text = query.get(name)
    if text is None or text == "":
        return None
    if not re.fullmatch(r"-?\d{1,18}", text):
        raise UsageError(f"{name}={text}: not a whole number.")
    return int(text)


async def runs(parts: Parts, query: Mapping[str, str]) -> Message:
    """GET /v1/runs."""
    limit, job = None if query.get("all") else NEWEST, query.get("job") or None
    found = await parts.store.runs.list(job=job, limit=limit)
    if job is not None and not found:
        find_job(parts.inventory, job)  # a typing slip is no job that never ran
    return {"runs": [await parts.crew.display.view(run.id, run) for run in found]}


async def run(parts: Parts, words: str) -> Message:
    """GET /v1/runs/RUN."""
    found = await parts.store.runs.find(words)
    known = await parts.store.view(found.id)
    view = await parts.crew.display.view(found.id, known.run)
    states = {one.id: one.state.value for one in known.incidents}
    place = parts.crew.where(known.run)
    return {
        **view,
        "attempts": attempts_told(known.run, known.attempts),
        "place": place.to_json() if place is not None else None,
        "incident_state": states.get(view["incident"] or ""),
    }


async def incidents(parts: Parts, query: Mapping[str, str]) -> Message:
    """GET /v1/incidents."""
    run = query.get("run")
    run_id = (await parts.store.runs.find(run)).id if run else None
    found = await parts.store.incidents.list(
        run=run_id, unresolved=not (query.get("all") or run_id)
    )
    return {"incidents": [await _incident_view(parts, one) for one in found]}


async def incident(parts: Parts, words: str) -> Message:
    """GET /v1/incidents/INCIDENT."""
    found = await parts.store.incidents.find(words)
    return dict(await _incident_view(parts, found))


async def _incident_view(parts: Parts, found: Incident) -> messages.IncidentView:
    """An incident may outlive its run, where a damaged database was rebuilt."""
    try:
        run = await parts.store.runs.get(found.run)
    except NoSuchRun:
        job, _, number = found.run.rpartition("-")
        run = Run(
            id=found.run,
            uid="",
            job=job,
            target="",
            number=int(number) if number.isdigit() else 0,
            state=RunState.LOST,
            attempt=found.attempt,
            session="",
            directory="",
        )
    return incident_view(found, run)


async def gpus(parts: Parts, words: str) -> Message:
    """GET /v1/runs/RUN/gpus: the history of its target's GPUs since the run began."""
    run = await parts.store.runs.find(words)
    place = parts.crew.where(run)
    history = parts.fleet.gpu_history(place.name if place is not None else run.target)
    since, until = run.started_at or run.created_at, run.ended_at or float("inf")
    return {
        "samples": [
            {"t": sample.at, "samples": [gpu_view(gpu) for gpu in sample.samples]}
            for sample in history
            if since <= sample.at <= until
        ]
    }


async def metrics(parts: Parts, words: str, query: Mapping[str, str]) -> Message:
    """GET /v1/runs/RUN/metrics: one object a step, as the program wrote or printed them."""
    run = await parts.store.runs.find(words)
    await parts.fetching.have(run)
    since = number(query, "since_step")
    return {"metrics": await asyncio.to_thread(_steps, parts, run.id, since)}


def _steps(parts: Parts, run: str, since: int | None) -> list[Message]:
    """In a thread: a flood of metrics is seconds of reading."""
    found = []
    for line in points.lines_of(parts.store.metrics, run, METRICS_BYTES):
        try:
            record = json.loads(line)
        except ValueError:
            continue
        step = record.get("step") if isinstance(record, dict) else None
        if isinstance(step, int) and (since is None or step > since):
            found.append(record)
    return found


# --- logs ----------------------------------------------------------------------------------------


async def log_range(parts: Parts, words: str, query: Mapping[str, str]) -> LogRange:
    """GET /v1/runs/RUN/log: raw bytes as they were stored."""
    run = await parts.store.runs.find(words)
    attempt = asked_attempt(run, query)
    await parts.fetching.have(run, (attempt,))
    logs = parts.store.logs
    size = logs.end(run.id, attempt)
    tail = number(query, "tail")
    if tail is not None:
        chunk = await asyncio.to_thread(last_lines, parts, run, attempt, tail)
        return LogRange(attempt=attempt, offset=size - len(chunk), size=size, chunk=chunk)
    since = await asyncio.to_thread(offset_since, parts, run.id, attempt, query)
    offset = max(0, number(query, "offset") or 0) if since is None else since
    wanted = min(number(query, "size") or MAX_RANGE_BYTES, MAX_RANGE_BYTES)
    chunk = await asyncio.to_thread(logs.read, run.id, attempt, offset, wanted)
    return LogRange(attempt=attempt, offset=offset, size=size, chunk=chunk)


def asked_attempt(run: Run, query: Mapping[str, str]) -> int:
    """The attempt that is asked for, or the newest; UsageError where there was none such."""
    newest = max(run.attempt, 1)
    attempt = number(query, "attempt")
    if attempt is not None and not 1 <= attempt <= newest:
        raise UsageError(
            f"{run.id} has no attempt {attempt}.", remedy=f"Name one from 1 to {newest}."
        )
    return attempt or newest


def last_lines(parts: Parts, run: Run, attempt: int, count: int) -> bytes:
    """The last lines of a log, a megabyte at most."""
    chunk = parts.store.logs.tail(run.id, attempt, TAIL_BYTES)
    lines = chunk.splitlines(keepends=True)
    return b"".join(lines[-count:]) if count > 0 else b""
