"""`orch bundle`: one archive with everything about a run that another person needs to help.

Owns what goes in and how much of it. Every text passes core/parse/secrets.py; nothing else leaves.
"""

import asyncio
import io
import json
import tarfile
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from orchestrator.api.server import Archive
from orchestrator.core.errors import OrchError
from orchestrator.core.model import Run
from orchestrator.core.parse.secrets import redact
from orchestrator.daemon import comparing, explaining, queries
from orchestrator.daemon.parts import EVIDENCE_FOLDER, Parts
from orchestrator.store import points

TAIL_LINES = 2000
AROUND_LINES = 60
MAX_PLACES = 40
METRICS_BYTES = 4 * 1024 * 1024
DAEMON_LOG_BYTES = 16 * 1024 * 1024
MAX_EVIDENCE_BYTES = 16 * 1024 * 1024
AFTER_END_S = 60.0
"""What the kernel says of an end comes with it, or shortly after."""


@dataclass(frozen=True, slots=True)
class _File:
    name: str
    text: str


async def bundle(parts: Parts, words: str) -> Archive:
    """GET /v1/runs/RUN/bundle: a tar.gz whose name carries the incident's id."""
    run = await parts.store.runs.find(words)
    await parts.crew.settle(run, comparing.LOOKS_WITHIN_S)
    files = [one async for one in _files(parts, run)]
    secrets = parts.cover.values()
    name = f"orch-{run.incident or 'ok'}-{run.id}"
    return await asyncio.to_thread(_packed, name, files, secrets, parts.clock.now())


def _packed(name: str, files: list[_File], secrets: Iterable[str], now: float) -> Archive:
    packed, names, removed = io.BytesIO(), [], 0
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for file in files:
            text, count = redact(file.text, secrets)
            removed += count
            content = text.encode("utf-8", "replace")
            member = tarfile.TarInfo(f"{name}/{file.name}")
            member.size, member.mtime, member.mode = len(content), int(now), 0o600
            archive.addfile(member, io.BytesIO(content))
            names.append(file.name)
    facts = {"name": f"{name}.tar.gz", "files": names, "secrets_removed": removed}
    return Archive(facts=facts, content=packed.getvalue())


async def _files(parts: Parts, run: Run) -> AsyncIterator[_File]:
    yield _document("run.json", dict(await parts.crew.display.view(run.id, run)))
    incidents = (await queries.incidents(parts, {"run": run.id}))["incidents"]
    yield _document("incidents.json", incidents)
    yield _document("verdict.json", run.verdict)
    if incidents:
        said = await explaining.explained(parts, incidents[0]["id"])
        yield _File("explain.md", said.pop("markdown"))
    looks = await parts.store.environments.of(run.id)
    yield _document("environment.json", [comparing.look_view(one) for one in looks])
    good = await comparing.last_good(parts, run)
    if good is not None:
        yield _document("diff.json", await comparing.diff(parts, run.id, {"with": good.id}))
    samples = (await queries.gpus(parts, run.id))["samples"]
    yield _File("gpus.jsonl", "".join(json.dumps(one) + "\n" for one in samples))
    yield _File("kernel.txt", "".join(_kernel(parts, run)))
    try:
        await parts.fetching.have(run, range(1, run.attempt + 1))
    except OrchError as error:
        yield _File("log/missing.txt", f"{error}\n")
    lines = _lines_of_interest(run, incidents)
    for file in await asyncio.to_thread(lambda: list(_stored(parts, run, lines))):
        yield file


def _kernel(parts: Parts, run: Run) -> Iterator[str]:
    """What the host's kernel said while the run lived, without what it said of other containers."""
    target = parts.crew.where(run)
    if target is None:
        return
    machine = parts.fleet.machine(target)
    until = run.ended_at + AFTER_END_S if run.ended_at is not None else float("inf")
    for line in machine.kernel.since(run.started_at or run.created_at):
        if line.at <= until and line.container in (None, target.container):
            yield f"{line.at:.3f} {line.line}\n"


def _lines_of_interest(run: Run, incidents: Iterable[dict[str, Any]]) -> dict[int, set[int]]:
    """Attempt -> lines of its log that say what went wrong."""
    found: dict[int, set[int]] = {run.attempt: set()}
    for one in (run.verdict or {}).get("findings", ()):
        found[run.attempt].add(int(one["line"]))
    for incident in incidents:
        line = incident["finding"].get("line")
        found.setdefault(incident["attempt"], set()).add(int(line or 0))
    return {attempt: set(sorted(lines - {0})[:MAX_PLACES]) for attempt, lines in found.items()}


def _stored(parts: Parts, run: Run, places: dict[int, set[int]]) -> Iterator[_File]:
    """What lies in files: logs, metrics, evidence, our own log's words on the run. Blocks."""
    for attempt in parts.store.logs.attempts(run.id):
        tail = queries.last_lines(parts, run, attempt, TAIL_LINES)
        yield _File(f"log/attempt-{attempt}-tail.txt", tail.decode("utf-8", "replace"))
        if lines := places.get(attempt):
            around = "".join(_around(parts, run.id, attempt, lines))
            yield _File(f"log/attempt-{attempt}-around-findings.txt", around)
    kept = {"metrics.jsonl": points.WRITTEN, "metrics-found.jsonl": points.FOUND}
    for name, place in kept.items():
        metrics = parts.store.metrics.tail(run.id, place, METRICS_BYTES)
        if metrics or place == points.WRITTEN:
            yield _File(name, metrics.decode("utf-8", "replace"))
    for path in sorted((parts.location.state_folder / EVIDENCE_FOLDER).glob(f"{run.id}.*")):
        if path.is_file() and path.stat().st_size <= MAX_EVIDENCE_BYTES:
            yield _File(f"evidence/{path.name}", path.read_text("utf-8", "replace"))
    yield _File("daemon.jsonl", "".join(_own_words(parts, run)))


def _around(parts: Parts, run: str, attempt: int, wanted: set[int]) -> Iterator[str]:
    """Numbered lines of a log near the wanted ones; `...` where some are left out."""
    last = max(wanted) + AROUND_LINES
    shown = {
        near
        for line in wanted
        for near in range(max(1, line - AROUND_LINES), line + AROUND_LINES + 1)
    }
    before = 0
    for number, line in enumerate(_log_lines(parts, run, attempt), start=1):
        if number > last:
            return
        if number in shown:
            if number != before + 1:
                yield "...\n"
            yield f"{number}: {line.decode('utf-8', 'replace').rstrip()}\n"
            before = number


def _log_lines(parts: Parts, run: str, attempt: int) -> Iterator[bytes]:
    rest = b""
    for _, chunk in parts.store.logs.parts(run, attempt):
        *lines, rest = (rest + chunk).split(b"\n")
        yield from lines
    yield rest


def _own_words(parts: Parts, run: Run) -> Iterator[str]:
    """What the daemon noted of the run, newest 16 MiB of its log."""
    try:
        with parts.location.log.open("rb") as log:
            log.seek(max(0, parts.location.log.stat().st_size - DAEMON_LOG_BYTES))
            for line in log:
                if run.id.encode() in line:
                    yield line.decode("utf-8", "replace")
    except OSError:
        return


def _document(name: str, document: Any) -> _File:
    return _File(name, json.dumps(document, indent=1, default=str) + "\n")
