"""`orch prune`: old releases and run folders on the targets, old logs here; never one in use.

Owns what is too old. What is in use on a target is the probe's to know.
"""

import asyncio
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from orchestrator.api.asking import asker
from orchestrator.api.forwarding import Asked
from orchestrator.core.errors import OrchError, UsageError
from orchestrator.core.model import Job, Run, Target
from orchestrator.daemon.forgetting import forget_old, kept_for
from orchestrator.daemon.parts import EVIDENCE_FOLDER, Parts
from orchestrator.daemon.shipping import code_folder, on_target
from orchestrator.deploy import code
from orchestrator.deploy import release as releases

Message = dict[str, Any]
OLD_RUN_S = 7 * 86_400.0
_WITHIN_S = 600.0


async def prune(parts: Parts, body: Mapping[str, Any]) -> Message:
    """POST /v1/prune: what goes, or with `dry_run` what would."""
    dry_run, age_s = _asked(body)
    inventory = parts.file.checked()
    places = [(job, target) for job in inventory.jobs.values() for target in job.targets]
    found = await asyncio.gather(
        *(_target(parts, on_target(job, target), age_s, dry_run) for job, target in places)
    )
    return {"dry_run": dry_run, "targets": list(found), **await _here(parts, dry_run)}


async def prune_target(parts: Parts, words: str, body: Mapping[str, Any]) -> Message:
    """POST /v1/targets/TARGET/prune: what a job has there, for a daemon that does not drive it."""
    dry_run, age_s = _asked(body)
    job = parts.file.checked().jobs.get(str(body.get("job")))
    for target in job.targets if job is not None else ():
        if job is not None and target.name == words:
            return await _target(parts, on_target(job, target), age_s, dry_run)
    raise UsageError(
        f"The daemon that drives {words} has no job {body.get('job')} there in its inventory "
        f"({parts.location.inventory}).",
        remedy="Add it there, or deploy the job from here: its host comes over by that.",
    )


def _asked(body: Mapping[str, Any]) -> tuple[bool, float]:
    age_s = body.get("run_age_s", OLD_RUN_S)
    if not isinstance(age_s, int | float) or age_s < 0:
        raise UsageError("`run_age_s` is a number of seconds.")
    return bool(body.get("dry_run")), float(age_s)


async def _passed_on(parts: Parts, key: str, job: Job, age_s: float, dry_run: bool) -> Message:
    body = json.dumps({"job": job.name, "run_age_s": age_s, "dry_run": dry_run}).encode()
    path = f"/v1/targets/{quote(job.target.name)}/prune"
    return await parts.passing.document(key, Asked("POST", path, body, asker.get()))


async def _target(parts: Parts, job: Job, age_s: float, dry_run: bool) -> Message:
    """One job on one target; a target that cannot be asked is named and holds up no other."""
    said: Message = {"job": job.name, "target": job.target.name, "error": None}
    key = parts.leasing.key(job.target.host)
    try:
        if not parts.leasing.drives(key):
            return await _passed_on(parts, key, job, age_s, dry_run)
        return {
            **said,
            "releases": await _releases(parts, job, dry_run),
            **await _runs(parts, job, job.target, age_s, dry_run),
        }
    except OrchError as error:
        return {**said, "releases": [], "runs": [], "sessions": [], "error": str(error)}


async def _releases(parts: Parts, job: Job, dry_run: bool) -> list[str]:
    """Digests of the releases that go: all but the newest `keep`, and none that is needed."""
    if job.package is None:
        return []
    link = parts.fleet.link(job.target)
    live = await parts.store.runs.list(job=job.name, live=True)
    protect = frozenset(run.release for run in live if run.release is not None)
    if not dry_run:
        return list((await releases.prune(link, job, protect=protect))["removed"])
    listed = await releases.releases(link, job)
    kept = {listed["current"], *protect}
    return [
        one["digest"]
        for number, one in enumerate(listed["releases"])
        if number >= job.keep and not one["in_use"] and one["digest"] not in kept
    ]


async def _runs(parts: Parts, job: Job, target: Target, age_s: float, dry_run: bool) -> Message:
    """Folders and dead tmux sessions of old runs on the target; logs go by retention, here."""
    names = [
        run.directory.rpartition("/")[2]
        for run in await parts.store.runs.list(job=job.name)
        if run.target == target.name and _is_old(parts, run, age_s)
    ]
    if not names:
        return {"runs": [], "sessions": []}
    answer = await parts.fleet.link(target).call(
        "runs_prune",
        timeout_s=_WITHIN_S,
        workdir=job.workdir,
        names=names,
        dry_run=dry_run,
        socket=target.tmux_socket,
    )
    return {"runs": list(answer["removed"]), "sessions": list(answer["sessions"])}


def _is_old(parts: Parts, run: Run, age_s: float) -> bool:
    return run.ended_at is not None and run.ended_at <= parts.clock.now() - age_s


async def _here(parts: Parts, dry_run: bool) -> Message:
    """Logs and rows in the state folder, and the code of releases that no log speaks of."""
    going, size = await parts.store.prunable(kept_for(parts.inventory))
    rows = 0
    if not dry_run:
        evidence = parts.location.state_folder / EVIDENCE_FOLDER
        pruned = await forget_old(parts.store, parts.inventory, evidence)
        going, size, rows = pruned.logs, pruned.log_bytes, pruned.rows
    unneeded = await _unneeded_code(parts, going)
    if not dry_run:
        for digest in unneeded:
            code.forget(code_folder(parts), digest)
    return {"logs": list(going), "log_bytes": size, "rows": rows, "code": unneeded}


async def _unneeded_code(parts: Parts, going: tuple[str, ...]) -> list[str]:
    logged = frozenset(parts.store.logs.runs()) - frozenset(going)
    needed = {run.release for run in await parts.store.runs.list() if run.id in logged}
    for job in parts.inventory.jobs.values():
        entry = await parts.store.releases.current(job.name, job.target.name)
        needed.add(entry.release.digest if entry else None)
    return [digest for digest in code.kept(code_folder(parts)) if digest not in needed]
