"""Deploy as a person asks for it: every target's plan first, then sending, news all the while.

It owns the order of a deploy and the words of its news. What is sent and how is deploy/'s.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from orchestrator.core.errors import OrchError, UsageError
from orchestrator.core.model import Inventory, Job, Release, Target
from orchestrator.daemon import moving
from orchestrator.daemon.parts import Parts
from orchestrator.deploy import code
from orchestrator.deploy import plan as plans
from orchestrator.deploy import release as releases
from orchestrator.deploy.ahead import Ahead
from orchestrator.deploy.bundle import Bundle, collect
from orchestrator.deploy.plan import Caller, DeployPlan
from orchestrator.deploy.provenance import Provenance, describe
from orchestrator.deploy.release import DeployProgress
from orchestrator.store.history import ReleaseEntry

Message = dict[str, Any]

_MOST_NEWS = 1000
"""What nobody has taken yet; nothing waits for room, since a reader may be gone."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """One job on one target: what is here and what would change there."""

    job: Job
    bundle: Bundle
    plan: DeployPlan


def _require_jobs(inventory: Inventory) -> None:
    if not inventory.jobs:
        raise UsageError("The inventory has no jobs.", remedy="Add one under `jobs:`.")


def find_job(inventory: Inventory, name: object) -> Job:
    """The job of a name; with none, the only one there is."""
    _require_jobs(inventory)
    known = ", ".join(inventory.jobs)
    if name is None:
        if len(inventory.jobs) == 1:
            return next(iter(inventory.jobs.values()))
        raise UsageError(f"Which job? The inventory has: {known}.", remedy="Name one.")
    job = inventory.jobs.get(name) if isinstance(name, str) else None
    if job is None:
        raise UsageError(f"There is no job {name} in the inventory; it has: {known}.")
    return job


def on_target(job: Job, target: Target) -> Job:
    """The job as that one target sees it."""
    return replace(job, targets=(target,))


async def plan_job(parts: Parts, job: Job, ahead: Ahead | None = None) -> list[Planned]:
    """What a deploy of the job would do on each of its targets; changes nothing.

    `ahead`: opens the connections that will be needed if all that is unread has to be sent.
    """
    if job.package is None:
        raise UsageError(
            f"The job {job.name} has no `package`, so there is nothing to deploy.",
            remedy=f"Add `package: FOLDER` to jobs.{job.name}, or just `orch run`.",
        )
    try:
        async with asyncio.TaskGroup() as group:
            described = group.create_task(describe(job.package))
            for target in job.targets:
                if (target.name, job.workdir) in parts.packages.deployed:
                    link = parts.fleet.link(target)
                    group.create_task(plans.look_ahead(link, on_target(job, target)))
            bundle = await collected(parts, job, ahead)
            asked = [
                group.create_task(_planned(parts, on_target(job, target), bundle, described))
                for target in job.targets
            ]
    except ExceptionGroup as failures:
        raise plans.first_of(failures) from failures
    return [one.result() for one in asked]


async def collected(parts: Parts, job: Job, ahead: Ahead | None = None) -> Bundle:
    """What a deploy of the job would ship, as it is now; the refusals of `collect`."""
    cache, now = parts.packages.hashes, parts.clock.now()
    loop = asyncio.get_running_loop()

    def open_ahead(num_bytes: int) -> None:
        if ahead is not None and num_bytes > plans.LARGE_BYTES:
            for target in job.targets:
                loop.call_soon_threadsafe(ahead.open, parts.fleet.link(target), job)

    inventory = parts.location.inventory
    return await asyncio.to_thread(
        collect, job, cache=cache, now=now, on_unread=open_ahead, inventory=inventory
    )


async def _planned(
    parts: Parts, job: Job, bundle: Bundle, described: asyncio.Task[Provenance]
) -> Planned:
    base = parts.packages.deployed.get((job.target.name, job.workdir))
    plan = await plans.plan(parts.fleet.link(job.target), job, bundle, base, described)
    return Planned(job=job, bundle=bundle, plan=plan)


async def deploy_job(
    parts: Parts, planned: list[Planned], ahead: Ahead
) -> AsyncGenerator[Message, None]:
    """Deploy to all planned targets side by side; `deployed` once for each."""
    news: asyncio.Queue[Message | None] = asyncio.Queue()

    async def all_of_them() -> None:
        try:
            async with asyncio.TaskGroup() as group:
                for one in planned:
                    group.create_task(_deploy_one(parts, one, news, ahead))
                group.create_task(_keep_code(parts, planned[0]))
        finally:
            news.put_nowait(None)

    working = asyncio.create_task(all_of_them(), name="deploy")
    try:
        while (message := await news.get()) is not None:
            yield message
        await _result(working)
    finally:
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)


async def _result(working: asyncio.Task[None]) -> None:
    try:
        await working
    except* OrchError as group:
        first: BaseException = group
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        raise first from None


async def _deploy_one(
    parts: Parts, planned: Planned, news: asyncio.Queue[Message | None], ahead: Ahead
) -> None:
    job, target = planned.job, planned.job.target
    began = parts.clock.monotonic()
    link = parts.fleet.link(target)

    def tell(progress: DeployProgress) -> None:
        if news.qsize() >= _MOST_NEWS:
            return  # news of progress may be dropped, the result may not
        if progress.line:
            message: Message = {"kind": "setup", "line": progress.line}
        else:
            message = {
                "kind": "progress",
                "stage": progress.stage,
                "sent_bytes": progress.bytes_sent,
                "total_bytes": progress.bytes_total,
                "bytes_per_s": round(progress.bytes_per_s),
            }
        news.put_nowait({**message, "job": job.name, "target": target.name})

    digest = parts.inventory.digest
    args = (job, planned.bundle, planned.plan, tell)
    caller: Caller = await ahead.bulk(link, job) if planned.plan.large else link
    release = await releases.deploy(caller, *args, inventory=digest)
    parts.packages.deployed[target.name, job.workdir] = planned.bundle
    parts.looks.look(link, job, release, await _remember(parts, planned, release))
    news.put_nowait(
        {
            "kind": "deployed",
            "job": job.name,
            "target": target.name,
            "release": release.digest,
            "path": release.path,
            "switched": planned.plan.current != release.digest,
            "seconds": round(parts.clock.monotonic() - began, 3),
        }
    )


async def _keep_code(parts: Parts, planned: Planned) -> None:
    """Keep the code here, so that two releases can be compared; a deploy never fails for it."""
    bundle, job = planned.bundle, planned.job
    base = parts.packages.deployed.get((job.target.name, job.workdir))
    try:
        await asyncio.to_thread(code.keep, code_folder(parts), bundle, base)
    except OSError as error:
        logger.warning("code.not_kept", extra={"release": bundle.digest, "why": str(error)})


def code_folder(parts: Parts) -> Path:
    """Where the code of releases is kept."""
    return parts.location.state_folder / "code"


async def _remember(parts: Parts, planned: Planned, release: Release) -> int:
    came = planned.plan.provenance.to_json()
    kept = {key: came[key] for key in ("by", "commit", "branch", "dirty")}
    return await parts.store.releases.add(
        release,
        job=planned.job.name,
        target=planned.job.target.name,
        provenance={**kept, "inventory": parts.inventory.digest},
    )


async def current_release(parts: Parts, job: Job) -> Release | None:
    """What a launch would run: the release that was deployed last, or None without a package."""
    if job.package is None:
        return None
    entry: ReleaseEntry | None = await parts.store.releases.current(job.name, job.target.name)
    if entry is None:
        raise UsageError(
            f"The job {job.name} was never deployed to {job.target.name}.",
            remedy="Leave --no-deploy out, or `orch deploy` first.",
        )
    return entry.release


async def deploy(parts: Parts, jobs: list[str], *, dry_run: bool) -> AsyncGenerator[Message, None]:
    """The stream of `orch deploy`."""
    inventory = parts.file.checked()
    _require_jobs(inventory)
    named = [find_job(inventory, name) for name in dict.fromkeys(jobs)]
    wanted = named or _all(inventory)
    async with Ahead() as ahead:
        for job in wanted:
            with only_one(parts, job.name):
                if not dry_run:
                    async for message in moving.drive(parts, job.targets):
                        yield message
                planned = await plan_job(parts, job, None if dry_run else ahead)
                for one in planned:
                    yield {"kind": "plan", "job": job.name, "plan": one.plan.to_json()}
                if not dry_run:
                    # It ends before its job is free, and while its connections are there.
                    async with contextlib.aclosing(deploy_job(parts, planned, ahead)) as news:
                        async for message in news:
                            yield message
        yield {"kind": "done"}


def _all(inventory: Inventory) -> list[Job]:
    jobs = [job for job in inventory.jobs.values() if job.package is not None]
    if not jobs:
        raise UsageError("No job of the inventory has a `package`, so there is nothing to deploy.")
    return jobs


class only_one:  # noqa: N801  a context manager that reads as a word
    """Refuses a second deploy or launch of a job while one is under way."""

    def __init__(self, parts: Parts, job: str) -> None:
        self._busy, self._job = parts.busy, job

    def __enter__(self) -> None:
        if self._job in self._busy:
            raise OrchError(
                f"A deploy or launch of {self._job} is under way already.",
                remedy="Wait for it; `orch status` shows how far it is.",
            )
        self._busy.add(self._job)

    def __exit__(self, *_: object) -> None:
        self._busy.discard(self._job)
