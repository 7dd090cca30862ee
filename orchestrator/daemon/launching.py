"""`orch run` and `orch stop` as a person asks for them, step by step, with news of each.

It owns their order: checks that need no target, deploy where the tree differs, `--replace`,
preflight, and the run stored with its launch; from there on the run's supervisor has it. A job of
several targets gets a run on each (nodes.py).
"""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing
from dataclasses import asdict, dataclass, replace
from typing import Any

from orchestrator.core.errors import Check, UsageError
from orchestrator.core.model import Job, Release, Run, RunState, Target
from orchestrator.daemon import drift, moving, nodes, numbering, shipping
from orchestrator.daemon.caching import cold_caches, cold_start_s, note_cold, shrunk
from orchestrator.daemon.coming_back import ACTS_AFTER_S
from orchestrator.daemon.environment import wanted_names
from orchestrator.daemon.parts import Parts
from orchestrator.daemon.placed import where
from orchestrator.daemon.timeline import note_command
from orchestrator.deploy.ahead import Ahead
from orchestrator.launch.preflight import in_backoff, preflight, require
from orchestrator.sinks.handover import receivers

Message = dict[str, Any]
DEFAULT_GRACE_S = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """What `orch run` was told."""

    job: str | None = None
    why: str = ""
    replace: bool = False
    force: bool = False
    deploy: bool = True
    release: str | None = None
    """A release that was deployed before, to run instead of the newest."""
    cold_cache: bool = False
    """Compile into empty caches in the run's own folder."""
    env: Mapping[str, str]
    args: tuple[str, ...] = ()

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> "RunRequest":
        """From the body of POST /v1/run; UsageError where it is not one."""
        env, args = body.get("env") or {}, body.get("args") or []
        if not isinstance(env, dict) or not isinstance(args, list):
            raise UsageError("`env` is an object and `args` a list.")
        if wrong := [key for key in env if not (key.isascii() and key.isidentifier())]:
            raise UsageError(f"{wrong[0]!r} in `env` is no name of a variable.")
        if ours := sorted(nodes.OURS.intersection(env)):
            raise UsageError(
                f"{ours[0]} is set by orch itself, for runs over several targets.",
                remedy="Give your variable another name.",
            )
        return cls(
            job=body.get("job"),
            why=str(body.get("why") or ""),
            replace=bool(body.get("replace")),
            force=bool(body.get("force")),
            deploy=body.get("deploy") is not False,
            cold_cache=bool(body.get("cold_cache")),
            env={str(key): str(value) for key, value in env.items()},
            args=tuple(str(arg) for arg in args),
        )


async def run(parts: Parts, request: RunRequest) -> AsyncGenerator[Message, None]:
    """The stream of `orch run`; its last message is `stored`."""
    job = shipping.find_job(parts.file.checked(), request.job)
    await _require_secrets(parts, job)
    async for message in _warnings(parts):
        yield message
    if await parts.back.lacks(job.name):
        text = f"the database was lost; its runs are being asked for first ({parts.back.how_far})"
        yield {"kind": "warning", "text": text}
        await parts.back.settle_job(job.name)
    with shipping.only_one(parts, job.name):
        async for message in moving.drive(parts, job.targets):
            yield message
        # Each part of it ends before the job is free, also where whoever asked has left.
        async with aclosing(_ship(parts, job, request)) as news:
            async for message in news:
                yield message
        singles = [shipping.on_target(job, target) for target in job.targets]
        drafts = [await _node(parts, single, request) for single in singles]
        if request.replace:
            async for message in _stop_others(parts, job):
                yield message
        checks = await _checks(parts, drafts, request)
        yield {"kind": "preflight", "checks": [check._asdict() for check in checks]}
        refused = [check for check in checks if check.critical and not check.ok]
        if not request.force:
            require(checks)
        await numbering.settle(parts, job)
        # Whoever asked and has left meanwhile gets no run: this cannot be told, and ends us.
        yield {"kind": "launching"}
        with parts.crew.beginning(*(node.draft.uid for node in drafts)):
            stored = await _store(parts, drafts, request, forced=bool(refused))
            if request.cold_cache or any(one.name == "cold_cache" and not one.ok for one in checks):
                await note_cold(parts, job, stored[0])
            for node, run in zip(drafts, stored, strict=True):
                await parts.crew.begin(run, node.job)
        views = [await parts.crew.display.view(run.id) for run in stored]
        yield {"kind": "stored", "run": views[0], "nodes": views}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Node:
    """What is to be launched on one target."""

    job: Job
    release: Release | None
    draft: Run


async def _node(parts: Parts, job: Job, request: RunRequest) -> _Node:
    release = await _release(parts, job, request)
    return _Node(job=job, release=release, draft=_draft(parts, job, release, request))


async def _checks(parts: Parts, drafts: list[_Node], request: RunRequest) -> tuple[Check, ...]:
    """All checks of all targets, asked side by side."""
    name, several = drafts[0].job.name, len(drafts) > 1
    others = await parts.store.runs.list(job=name, live=True)
    cold_s = await cold_start_s(parts, drafts[0].job)
    alerted = receivers(parts.inventory.alerts.sinks, parts.environment.lookup)

    async def of(node: _Node) -> list[Check]:
        asked = _replacing(node.job) if request.replace else node.job
        now, link = parts.clock.now(), parts.fleet.link(node.job.target)
        good = await drift.last_good(parts, node.job)
        looked, drifted = await asyncio.gather(
            preflight(
                link,
                asked,
                node.draft,
                node.release,
                now=now,
                good=good.listed if good is not None else None,
                live=tuple(run.id for run in others),
                cold_start_s=cold_s,
                alerted=[asdict(one) for one in alerted],
                on_host=parts.fleet.machine(node.job.target).on_host,
            ),
            drift.since(parts, node.job, node.release, good),
        )
        found = [*looked, *drifted]
        if not request.cold_cache:
            found += await shrunk(parts, node.job)
        place = f"{node.job.target.name}: " if several else ""
        return [check._replace(text=f"{place}{check.text}") for check in found]

    found = await asyncio.gather(*(of(node) for node in drafts))
    return (*in_backoff(others), *(check for checks in found for check in checks))


async def _store(
    parts: Parts, drafts: list[_Node], request: RunRequest, *, forced: bool
) -> list[Run]:
    """The runs with their numbers, node 0 first; its number is the newest, so that JOB means it."""
    group, count = drafts[0].draft.uid, len(drafts)
    stored: list[Run] = []
    for rank, node in reversed(list(enumerate(drafts))):
        env = {**node.draft.env, **nodes.node_env(group, rank, count)}
        run = await parts.store.runs.create(replace(node.draft, forced=forced, env=env))
        if request.cold_cache:
            run = replace(run, env={**run.env, **cold_caches(run.directory)})
            await parts.store.runs.put(run)
        await note_command(parts, run.id, "run", **({"why": request.why} if request.why else {}))
        stored.insert(0, run)
    return stored


async def stop(parts: Parts, words: str, grace_s: float | None) -> AsyncGenerator[Message, None]:
    """The stream of `orch stop`."""
    await parts.back.settle_on(words, ACTS_AFTER_S)
    found = await parts.store.runs.find(words)
    live = await nodes.live_nodes(parts.store, found)
    await moving.driven(parts, _targets(parts, live))
    if not live:
        yield {"kind": "stopped", "run": await parts.crew.display.view(found.id), "already": True}
        return
    for run in live:
        yield {"kind": "stopping", "run": await parts.crew.display.view(run.id)}
    grace_s = DEFAULT_GRACE_S if grace_s is None else grace_s
    asked = [_stopped(parts, run, grace_s, waits=False) for run in live]
    for ended in asyncio.as_completed(asked):
        yield await ended


def _targets(parts: Parts, runs: Iterable[Run]) -> list[Target]:
    """Where they are, as far as that is known; a node's host may have gone to another daemon."""
    found = (where(run, parts.inventory) for run in runs)
    return [target for target in found if target is not None]


async def _stopped(parts: Parts, run: Run, grace_s: float, *, waits: bool = True) -> Message:
    await note_command(parts, run.id, "stop")
    ending = await parts.crew.stopping.stop(run, grace_s, waits=waits)
    view = await parts.crew.display.view(run.id)
    return {"kind": "kept" if ending is None else "stopped", **(ending or {}), "run": view}


async def _require_secrets(parts: Parts, job: Job) -> None:
    await parts.environment.learn((*job.secrets, *wanted_names(parts.inventory)))
    missing = parts.environment.missing(list(job.secrets))
    if missing:
        names = ", ".join(missing)
        faults = "".join(f" {fault}." for fault in parts.environment.file_faults())
        raise UsageError(
            f"The job {job.name} needs {names}, and no value was found.{faults}",
            remedy=f"Set it where you call orch, or in {parts.environment.file} (mode 0600).",
        )


async def _warnings(parts: Parts) -> AsyncGenerator[Message, None]:
    for sink in await parts.outbox.status():
        if sink.state != "ready":
            names = " and ".join(sink.missing)
            why = f"set {names}" if names else (sink.error or sink.state)
            text = f"alerts to {sink.name} are not sent ({sink.state}): {why}"
            yield {"kind": "warning", "text": text}


async def _ship(parts: Parts, job: Job, request: RunRequest) -> AsyncGenerator[Message, None]:
    if job.package is None or request.release is not None or not request.deploy:
        return
    async with Ahead() as ahead, aclosing(_shipped(parts, job, ahead)) as news:
        async for message in news:
            yield message


async def _shipped(parts: Parts, job: Job, ahead: Ahead) -> AsyncGenerator[Message, None]:
    planned = await shipping.plan_job(parts, job, ahead)
    known = await parts.store.releases.current(job.name, job.target.name)
    digest = planned[0].bundle.digest
    if known and known.release.digest == digest and all(p.plan.changes_nothing for p in planned):
        return
    for one in planned:
        yield {"kind": "plan", "job": job.name, "plan": one.plan.to_json()}
    async with aclosing(shipping.deploy_job(parts, planned, ahead)) as news:
        async for message in news:
            yield message


async def _release(parts: Parts, job: Job, request: RunRequest) -> Release | None:
    if request.release is None:
        return await shipping.current_release(parts, job)
    found = await parts.store.releases.find(job.name, job.target.name, request.release)
    if found is None:
        raise UsageError(f"Release {request.release} of {job.name} was never deployed.")
    return found


async def _stop_others(parts: Parts, job: Job) -> AsyncGenerator[Message, None]:
    """End the job's live runs and wait until their GPU memory is free.

    What one in a back-off left where nobody can reach it has no say over when another begins.
    """
    for other in await parts.store.runs.list(job=job.name, live=True):
        yield {"kind": "stopping", "run": await parts.crew.display.view(other.id)}
        waits = other.state is not RunState.BACKOFF
        ended = await _stopped(parts, other, DEFAULT_GRACE_S, waits=waits)
        if ended["kind"] == "kept":
            left = "what it may have left there is ended once it is back"
            text = f"{other.id} is stopped; {other.target} cannot be reached: {left}"
            yield {"kind": "warning", "text": text}
        else:
            yield {**ended, "kind": "ended"}


def _replacing(job: Job) -> Job:
    """What earlier runs left is ended as well: a run may end and leave processes behind."""
    return replace(job, preflight=replace(job.preflight, stale_processes="stop"))


def _draft(parts: Parts, job: Job, release: Release | None, request: RunRequest) -> Run:
    uid = parts.clock.new_id(6)
    return Run(
        id="",
        uid=uid,
        job=job.name,
        target=job.target.name,
        number=0,
        state=RunState.PENDING,
        attempt=1,
        session=job.session or job.name,
        directory=f"{job.workdir}/runs/{{id}}.{uid}",
        release=release.digest if release else None,
        why=request.why,
        args=request.args,
        env=dict(request.env),
        host=parts.leasing.key(job.target.host),
        whereabouts=job.target,
    )
