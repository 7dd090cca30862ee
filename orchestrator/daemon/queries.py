"""What a person reads of the daemon: runs, logs, incidents, waits. It changes nothing."""

import asyncio
import codecs
import json
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any

from orchestrator.api import messages
from orchestrator.api.server import LogRange
from orchestrator.core.errors import NoSuchRun, UsageError
from orchestrator.core.model import Incident, Run, RunState
from orchestrator.daemon.moments import offset_since
from orchestrator.daemon.parts import Parts
from orchestrator.daemon.views import gpu_view, incident_view

Message = dict[str, Any]
NEWEST = 20
CHUNK_BYTES = 256 * 1024
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
    limit = None if query.get("all") else NEWEST
    found = await parts.store.runs.list(job=query.get("job") or None, limit=limit)
    return {"runs": [await parts.crew.view(run.id, run) for run in found]}


async def run(parts: Parts, words: str) -> Message:
    """GET /v1/runs/RUN."""
    found = await parts.store.runs.find(words)
    return dict(await parts.crew.view(found.id, found))


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
    history = parts.fleet.gpu_history(run.target)
    since, until = run.started_at or run.created_at, run.ended_at or float("inf")
    return {
        "samples": [
            {"t": sample.at, "samples": [gpu_view(gpu) for gpu in sample.samples]}
            for sample in history
            if since <= sample.at <= until
        ]
    }


async def metrics(parts: Parts, words: str, query: Mapping[str, str]) -> Message:
    """GET /v1/runs/RUN/metrics: one object a step, as the program wrote them."""
    run = await parts.store.runs.find(words)
    since = number(query, "since_step")
    found = []
    for line in parts.store.metrics.read(run.id, 0, 0, METRICS_BYTES).splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        step = record.get("step") if isinstance(record, dict) else None
        if isinstance(step, int) and (since is None or step > since):
            found.append(record)
    return {"metrics": found}


# --- logs ----------------------------------------------------------------------------------------


async def log_range(parts: Parts, words: str, query: Mapping[str, str]) -> LogRange:
    """GET /v1/runs/RUN/log: raw bytes as they were stored."""
    run = await parts.store.runs.find(words)
    attempt = number(query, "attempt") or run.attempt
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


def last_lines(parts: Parts, run: Run, attempt: int, count: int) -> bytes:
    """The last lines of a log, a megabyte at most."""
    chunk = parts.store.logs.tail(run.id, attempt, TAIL_BYTES)
    lines = chunk.splitlines(keepends=True)
    return b"".join(lines[-count:]) if count > 0 else b""


async def follow(
    parts: Parts, words: str, query: Mapping[str, str]
) -> AsyncGenerator[Message, None]:
    """GET /v1/runs/RUN/follow: the log as it grows, and what happens to the run, to its end."""
    run = await parts.store.runs.find(words)
    tail = number(query, "tail")
    attempt = number(query, "attempt") or max(run.attempt, 1)
    cursor = _Cursor(attempt=attempt, offset=number(query, "offset") or 0)
    if tail is not None:
        end = parts.store.logs.end(run.id, cursor.attempt)
        lines = await asyncio.to_thread(last_lines, parts, run, cursor.attempt, tail)
        cursor.offset = end - len(lines)
    since = await asyncio.to_thread(offset_since, parts, run.id, attempt, query)
    cursor.offset = cursor.offset if since is None else since
    seen: dict[str, Any] = {}
    while True:
        bell = parts.crew.bell(run.id)
        rung = asyncio.ensure_future(bell.wait())
        try:
            view = await parts.crew.view(run.id)
            for message in _news(parts, run.id, view, seen):
                yield message
            for part in cursor.read(parts, run.id, view["attempt"]):
                yield part
            if view["state"] in ENDED and cursor.at_end(parts, run.id, view["attempt"]):
                yield {"kind": "end", "run": view}
                return
            if cursor.at_end(parts, run.id, view["attempt"]):
                await rung
        finally:
            rung.cancel()


ENDED = frozenset({"finished", "failed", "stopped", "lost"})


_utf8 = codecs.getincrementaldecoder("utf-8")
"""A character may be cut by the end of a chunk; what is no UTF-8 shows as U+FFFD."""


class _Cursor:
    """Where a reader of a run's logs is, over its attempts."""

    def __init__(self, *, attempt: int, offset: int) -> None:
        self.attempt, self.offset = attempt, offset
        self._decoder = _utf8("replace")

    def at_end(self, parts: Parts, run: str, newest: int) -> bool:
        end = parts.store.logs.end(run, self.attempt)
        return self.attempt >= newest and self.offset >= end

    def read(self, parts: Parts, run: str, newest: int) -> list[Message]:
        """The next parts, a quarter of a megabyte or so."""
        found: list[Message] = []
        for offset, chunk in parts.store.logs.parts(run, self.attempt, self.offset, CHUNK_BYTES):
            if offset > self.offset:
                size = offset - self.offset
                found.append(
                    {
                        "kind": "gap",
                        "attempt": self.attempt,
                        "offset": self.offset,
                        "size": size,
                        "reason": "these bytes could not be had",
                    }
                )
            end = offset + len(chunk)
            text = self._decoder.decode(chunk)
            found.append(
                {
                    "kind": "log",
                    "attempt": self.attempt,
                    "offset": offset,
                    "end": end,
                    "text": text,
                }
            )
            self.offset = end
        if not found and self.attempt < newest:
            self.attempt, self.offset, self._decoder = self.attempt + 1, 0, _utf8("replace")
        return found


def _news(parts: Parts, run: str, view: Mapping[str, Any], seen: dict[str, Any]) -> list[Message]:
    """What is new of the run, its incident and its link since the last look."""
    news: list[Message] = []
    if seen.get("run") != view:
        seen["run"] = view
        news.append({"kind": "run", "run": view})
    if seen.setdefault("link", view["link"]) != view["link"]:
        seen["link"] = view["link"]
        target = parts.board.view("targets", view["target"]) or {}
        news.append(
            {
                "kind": "link",
                "state": view["link"],
                "seen_at": view["seen_at"],
                "reason": target.get("error"),
            }
        )
    for incident_shown in parts.board.views("incidents"):
        key = f"incident {incident_shown['id']}"
        if incident_shown["run"] == run and seen.get(key) != incident_shown:
            seen[key] = incident_shown
            news.append({"kind": "incident", "incident": incident_shown})
    return news


# --- waiting -------------------------------------------------------------------------------------


async def wait(parts: Parts, words: str, query: Mapping[str, str]) -> Message:
    """GET /v1/runs/RUN/wait: answers the moment the expression holds, or after the timeout."""
    run = await parts.store.runs.find(words)
    condition = _condition(query.get("until") or "ended")
    timeout_s = number(query, "timeout")
    try:
        async with asyncio.timeout(timeout_s):
            reached, reason = await condition(parts, run)
    except TimeoutError:
        reached, reason = False, f"not within {timeout_s} s"
    return {"reached": reached, "run": await parts.crew.view(run.id), "reason": reason}


Condition = Callable[[Parts, Run], Awaitable[tuple[bool, str]]]
Holds = Callable[[messages.RunView], str | None]


def _condition(expression: str) -> Condition:
    kind, _, rest = expression.partition(":")
    match kind:
        case "ended":
            return _view_condition(lambda view: view["state"] if view["state"] in ENDED else None)
        case "crashed":
            return _view_condition(lambda view: "crashed" if view["incident"] else None)
        case "step" if rest.isdigit():
            wanted = int(rest)
            return _view_condition(
                lambda view: f"step {view['step']}" if (view["step"] or 0) >= wanted else None
            )
        case "log" if rest:
            try:
                pattern = re.compile(rest)
            except re.error as exc:
                raise UsageError(f"--until log:{rest}: not a regular expression: {exc}") from exc
            return lambda parts, run: _until_logged(parts, run, pattern)
        case _:
            raise UsageError(
                f"--until {expression}: not an expression.",
                remedy="Write ended, crashed, step:N or log:RE.",
            )


def _view_condition(holds: Holds) -> Condition:
    async def until(parts: Parts, run: Run) -> tuple[bool, str]:
        while True:
            rung = asyncio.ensure_future(parts.crew.bell(run.id).wait())
            try:
                view = await parts.crew.view(run.id)
                reason = holds(view)
                if reason is not None:
                    return True, reason
                if view["state"] in ENDED:
                    return False, f"the run is {view['state']}"
                await rung
            finally:
                rung.cancel()

    return until


async def _until_logged(parts: Parts, run: Run, pattern: re.Pattern[str]) -> tuple[bool, str]:
    rest = ""
    async for message in follow(parts, run.id, {}):
        if message["kind"] == "log":
            *lines, rest = (rest + message["text"]).split("\n")
            for line in lines:
                if pattern.search(line):
                    return True, line.strip()
    return False, "the run has ended"
