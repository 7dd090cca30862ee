"""The releases that a job's targets have: listed with where they came from, and switched between.

Owns which one a person means. What is there is asked of the target; it is never changed but by
`rollback`.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

from orchestrator.core.errors import DeployError, OrchError, UsageError
from orchestrator.core.model import Inventory, Job, Release, Run
from orchestrator.daemon import moving
from orchestrator.daemon.parts import Parts
from orchestrator.daemon.shipping import find_job, on_target, only_one
from orchestrator.deploy import release as releases
from orchestrator.probe.manifest import CHANGES_FILE

Message = dict[str, Any]
_MOST_RUNS = 500


async def kept(parts: Parts, query: Mapping[str, str]) -> Message:
    """GET /v1/releases/there: what each target of a job has, newest deploy first."""
    job = find_job(parts.inventory, query.get("job") or None)
    runs = await parts.store.runs.list(job=job.name, limit=_MOST_RUNS)
    singles = [on_target(job, target) for target in job.targets]
    return {"targets": list(await asyncio.gather(*(_there(parts, one, runs) for one in singles)))}


async def _there(parts: Parts, job: Job, runs: tuple[Run, ...]) -> Message:
    """One target; one that cannot be asked is named, and holds up no other."""
    said: Message = {"job": job.name, "target": job.target.name, "keep": job.keep}
    try:
        found = await releases.releases(parts.fleet.link(job.target), job)
    except OrchError as error:
        return {**said, "error": str(error), "current": None, "releases": []}
    ran = {
        run.release: {"run": run.id, "state": run.state.value}
        for run in reversed(runs)  # the newest is said last, and so stays
        if run.target == job.target.name
    }
    listed = [_view(job, one, ran.get(one["digest"])) for one in found["releases"]]
    return {**said, "error": None, "current": found["current"], "releases": listed}


def _view(job: Job, record: Mapping[str, Any], last_run: Message | None) -> Message:
    came = dict(record.get("provenance") or {})
    diff = f"{job.workdir}/releases/{record['digest']}/{CHANGES_FILE}"
    return {
        **{key: record[key] for key in ("digest", "at", "files", "bytes", "in_use")},
        **{key: came.get(key) for key in ("by", "commit", "branch", "dirty", "inventory")},
        "untracked": list(came.get("untracked") or ()),
        "diff": diff if came.get("diff_bytes") else None,
        "last_run": last_run,
    }


async def rollback(parts: Parts, name: str | None, digest: str | None) -> Message:
    """Make an older release the current one, on each of the job's targets, one after the other."""
    job, digest = _meant(parts.file.checked(), name, digest)
    with only_one(parts, job.name):
        await moving.driven(parts, job.targets)
        done: list[Message] = []
        for target in job.targets:
            try:
                done.append(await _switched(parts, on_target(job, target), digest))
            except OrchError as error:
                if not done:
                    raise _no_job_either(error, name, job) from error
                names = ", ".join(one["target"] for one in done)
                raise DeployError(
                    f"{error.message} Switched already: {names}.", remedy=error.remedy
                ) from error
    first = done[0]
    return {"job": job.name, "before": first["before"], "current": first["current"]}


def _meant(inventory: Inventory, name: str | None, digest: str | None) -> tuple[Job, str | None]:
    """Where the inventory has one job, a single word that is not its name means a release."""
    if digest is None and len(inventory.jobs) == 1 and name not in (None, *inventory.jobs):
        return find_job(inventory, None), name
    if digest is None and name is not None and name not in inventory.jobs and inventory.jobs:
        raise UsageError(
            f"There is no job {name} in the inventory; it has: {', '.join(inventory.jobs)}.",
            remedy=f"Where {name} is a release, name its job first: `orch rollback JOB {name}`.",
        )
    return find_job(inventory, name), digest


def _no_job_either(error: OrchError, name: str | None, job: Job) -> OrchError:
    """What a word that was taken for a release is refused with: it may have meant a job."""
    if not isinstance(error, UsageError) or name in (None, job.name):
        return error
    return UsageError(f"No job is called {name}, and {error.message}", remedy=error.remedy)


async def _switched(parts: Parts, job: Job, digest: str | None) -> Message:
    answer = await releases.rollback(parts.fleet.link(job.target), job, digest)
    record = answer["release"]
    release = Release(
        digest=answer["current"],
        path=answer["path"],
        files=int(record.get("files") or 0),
        bytes=int(record.get("bytes") or 0),
    )
    await parts.store.releases.add(release, job=job.name, target=job.target.name, kind="rollback")
    return {"target": job.target.name, **answer}
