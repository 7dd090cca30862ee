"""`orch cache`: the compile caches of a job on its targets, kept, brought back, emptied.

Owns when that is refused, and what an empty cache costs: from the launch to the first step of the
last run that had one. The key is deploy/kernels.py's, the copying the probe's.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict
from typing import Any

from orchestrator.core.errors import Check, OrchError, UsageError
from orchestrator.core.model import Job, Release, Run, Target
from orchestrator.daemon import moving
from orchestrator.daemon.parts import Parts
from orchestrator.daemon.shipping import find_job, on_target, only_one
from orchestrator.deploy import environment, kernels
from orchestrator.deploy.kernels import Making
from orchestrator.store.environments import Moment

Message = dict[str, Any]
_MOST_RUNS = 20
_FIRST_LINES_BYTES = 256 * 1024
_COLD = "cold_runs."
_MOST_COLD = 5
"""So many of a job's cold runs are remembered: the last one may not have made a step."""

One = Callable[[Parts, Job, Making], Awaitable[Message]]


async def caches(parts: Parts, query: Mapping[str, str]) -> Message:
    """GET /v1/cache: what each target of a job holds, and what is kept of it."""
    return await _on_each(parts, find_job(parts.inventory, query.get("job") or None), _look)


async def save(parts: Parts, body: Mapping[str, Any]) -> Message:
    """POST /v1/cache/save: keep a copy."""

    async def one(parts: Parts, job: Job, making: Making) -> Message:
        kept = await kernels.save(parts.fleet.link(job.target), job, making)
        return {"kept": kept, "dropped": kept.pop("dropped")}

    return await _changing(parts, body.get("job"), one)


async def restore(parts: Parts, body: Mapping[str, Any]) -> Message:
    """POST /v1/cache/restore: bring back the one of that name, or the newest that fits."""

    async def one(parts: Parts, job: Job, making: Making) -> Message:
        await _require_no_run(parts, job, force=bool(body.get("force")))
        link = parts.fleet.link(job.target)
        _, kept = await kernels.held(link, job)
        chosen = _chosen(kept, making, job, body.get("name"))
        answer = await kernels.restore(link, job, chosen.name)
        return {"restored": chosen.to_json(making), **answer}

    return await _changing(parts, body.get("job"), one)


async def clear(parts: Parts, body: Mapping[str, Any]) -> Message:
    """POST /v1/cache/clear: empty the caches; what was in them is kept."""

    async def one(parts: Parts, job: Job, making: Making) -> Message:
        await _require_no_run(parts, job, force=bool(body.get("force")))
        kept = await kernels.clear(parts.fleet.link(job.target), job, making)
        return {"kept": kept, "dropped": kept.pop("dropped")}

    return await _changing(parts, body.get("job"), one)


def cold_caches(folder: str) -> dict[str, str]:
    """Variables that put every compile cache into a folder of the run, where nothing is yet."""
    names = {
        "TORCHINDUCTOR_CACHE_DIR": "inductor",
        "TRITON_CACHE_DIR": "triton",
        "CUDA_CACHE_PATH": "cuda",
        "FLASHINFER_WORKSPACE_BASE": "flashinfer",
    }
    return {name: f"{folder}/cold-cache/{part}" for name, part in names.items()}


async def note_cold(parts: Parts, job: Job, run: Run) -> None:
    """Remember that a run was launched with no compiled kernel there."""
    known = await parts.store.values.get(_COLD + job.name) or []
    await parts.store.values.set(_COLD + job.name, [run.id, *known][:_MOST_COLD])


async def cold_start_s(parts: Parts, job: Job) -> float | None:
    """Seconds from launch to first step of the job's last run whose caches were empty."""
    for name in await parts.store.values.get(_COLD + job.name) or []:
        attempts = await parts.store.runs.attempts(name)
        started_at = attempts[0].started_at if attempts else None
        stepped_at = await asyncio.to_thread(_first_step_at, parts, name)
        if started_at is not None and stepped_at is not None and stepped_at > started_at:
            return stepped_at - started_at
    return None


async def shrunk(parts: Parts, job: Job) -> tuple[Check, ...]:
    """A warning for each cache on the job's target with less in it than its last run left there."""
    last = await _left_behind(parts, job)
    if last is None:
        return ()
    run, before = last
    try:
        held, _ = await kernels.held(parts.fleet.link(job.target), job)
    except OrchError:
        return ()  # preflight says what is wrong there; a plain shell cannot be asked
    now = {one["path"]: one for one in held}
    known = {path: size for path, size in before.items() if path in now and size}
    return tuple(
        Check(
            name="cache",
            ok=False,
            critical=False,
            text=f"{change} since {run.id} ended: what is gone is compiled anew",
            remedy=f"`orch cache ls {job.name}` shows what is kept.",
        )
        for change in environment.diff({"caches": known}, {"caches": now})
    )


async def _left_behind(parts: Parts, job: Job) -> tuple[Run, Mapping[str, Any]] | None:
    """The job's last run on the target whose end was looked at, and its caches then."""
    for run in await parts.store.runs.list(job=job.name, limit=_MOST_RUNS):
        if run.target == job.target.name:
            for look in await parts.store.environments.of(run.id):
                if look.moment is Moment.END and look.fingerprint.get("caches"):
                    return run, look.fingerprint["caches"]
    return None


def _first_step_at(parts: Parts, run: str) -> float | None:
    """When the program says that it had made a step; None where it never did."""
    for line in parts.store.metrics.read(run, 0, 0, _FIRST_LINES_BYTES).splitlines():
        try:
            said = json.loads(line)
            step, at = said["step"], said["t"]
        except (ValueError, KeyError, TypeError):
            continue  # torn, or a line that tells of something else
        if isinstance(step, int) and step > 0 and isinstance(at, int | float):
            return float(at)
    return None


# --- each target ---------------------------------------------------------------------------------


async def _changing(parts: Parts, name: object, one: One) -> Message:
    job = find_job(parts.file.checked(), name)
    with only_one(parts, job.name):
        await moving.driven(parts, job.targets)
        return await _on_each(parts, job, one)


async def _on_each(parts: Parts, job: Job, one: One) -> Message:
    """Do it on all targets of the job, side by side; one that fails is named and stops no other."""
    cold_s = await cold_start_s(parts, job)

    async def on(target: Target) -> Message:
        single = on_target(job, target)
        said: Message = {"job": job.name, "target": target.name, "cold_start_s": cold_s}
        try:
            making = await _making(parts, single)
            return {**said, "error": None, **await one(parts, single, making)}
        except OrchError as error:
            if len(job.targets) == 1:
                raise
            return {**said, "error": str(error)}

    return {"targets": list(await asyncio.gather(*map(on, job.targets)))}


async def _making(parts: Parts, job: Job) -> Making:
    """What a run of the job would compile with now."""
    entry = await parts.store.releases.current(job.name, job.target.name)
    release: Release | None = entry.release if entry is not None else None
    link = parts.fleet.link(job.target)
    found = await environment.fingerprint(link, job, release)
    return Making.of(found, release.digest if release is not None else None)


async def _look(parts: Parts, job: Job, making: Making) -> Message:
    now, kept = await kernels.held(parts.fleet.link(job.target), job)
    fits = kernels.best(kept, making)
    return {
        "made_with": asdict(making),
        "now": now,
        "saved": [one.to_json(making) for one in kept],
        "fits": fits.name if fits is not None else None,
    }


async def _require_no_run(parts: Parts, job: Job, *, force: bool) -> None:
    """A program that compiles must not lose its cache from under it."""
    live = await parts.store.runs.list(job=job.name, live=True)
    if live and not force:
        raise UsageError(
            f"{live[0].id} is using the compile caches of {job.name}.",
            remedy=f"`orch stop {live[0].id}` first, or --force.",
        )


def _chosen(kept: list[kernels.Kept], now: Making, job: Job, name: object) -> kernels.Kept:
    remedy = f"`orch cache ls {job.name}` lists what is kept, and how it differs."
    if name is None:
        found = kernels.best(kept, now)
        if found is None:
            what = "nothing is kept" if not kept else "nothing that is kept fits"
            raise UsageError(
                f"{job.target.name}: {what} for {job.name} as it is now.", remedy=remedy
            )
        return found
    named = [one for one in kept if isinstance(name, str) and one.name.startswith(name)]
    exact = [one for one in named if one.name == name]
    if len(exact or named) != 1:
        how = f"{len(named)} compile caches of {job.name} begin" if named else ""
        how = how or f"no compile cache of {job.name} begins"
        raise UsageError(f"{job.target.name}: {how} with {name}.", remedy=remedy)
    return (exact or named)[0]
