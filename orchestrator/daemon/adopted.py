"""The job of a stored run: the inventory's, that of an adoption, or one that is only watched.

Owns what is kept of an adoption, so that a daemon that starts anew finds the same job.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

from orchestrator.core.adhoc import find_target
from orchestrator.core.contract import NO_RESTART_EXIT_CODE
from orchestrator.core.model import Adoption, Inventory, Job, RestartPolicy, Run, Target
from orchestrator.daemon.placed import where
from orchestrator.store.store import Store

_REMOVED = "echo 'orch: the job was taken out of the inventory before this attempt began'"


def job_for(said: Mapping[str, Any], inventory: Inventory, target: Target | None = None) -> Job:
    """The job of an adoption; it is never relaunched: what started it is not known.

    `said` has target, session, folder, what and take_pipe, as they are stored.
    """
    # The word was found good when it was adopted; its alias need not be looked up again.
    target = target or find_target(said["target"], inventory, (said["target"],))
    adopts = Adoption(what=said["what"], take_pipe=bool(said["take_pipe"]))
    session = said["session"]
    for job in inventory.jobs.values():
        if job.session == session and target in job.targets:
            return replace(job, adopts=adopts, restart=RestartPolicy(), targets=(target,))
    return Job(
        name=session,
        targets=(target,),
        command=("adopted",),
        workdir=said["folder"],
        session=session,
        adopts=adopts,
    )


async def keep(store: Store, run: Run, said: Mapping[str, Any]) -> None:
    """Remember what a run was adopted from."""
    await store.values.set(_key(run), dict(said))


async def job_of(store: Store, run: Run, inventory: Inventory) -> Job | None:
    """The job of a stored run, adopted or not; None where its target is no longer known.

    A job that was taken out of the inventory leaves its run to be watched and stopped all the
    same; it is not launched again.
    """
    return (await jobs_of(store, (run,), inventory))[run.id]


async def jobs_of(
    store: Store, runs: Collection[Run], inventory: Inventory
) -> dict[str, Job | None]:
    """As `job_of`, by run; asked of the store at once."""
    keys = [key for run in runs for key in (_key(run), rebuilt_key(run.id))]
    known = await store.values.several(keys)
    return {run.id: _job(run, inventory, known) for run in runs}


def _job(run: Run, inventory: Inventory, known: Mapping[str, Any]) -> Job | None:
    said = known.get(_key(run))
    if said is not None:
        return job_for(said, inventory, where(run, inventory))
    job = _declared(run, inventory)
    again = known.get(rebuilt_key(run.id))
    if job is None or again is None:
        return job
    # Where a secret was among what it was asked for, it cannot be launched as it was.
    restart = job.restart if again.get("whole") else RestartPolicy()
    return replace(job, restart=restart, retold=bool(again["ended"]))


def _declared(run: Run, inventory: Inventory) -> Job | None:
    job, target = inventory.jobs.get(run.job), where(run, inventory)
    if target is None:
        return None
    if job is not None:
        # A run stays where it was launched when the job, or its target, goes elsewhere.
        return replace(job, targets=(target,))
    return Job(
        name=run.job,
        targets=(target,),
        command=("sh", "-c", f"{_REMOVED}; exit {NO_RESTART_EXIT_CODE}"),
        workdir=str(PurePosixPath(run.directory).parent.parent),
        session=run.session,
    )


def is_removed(job: Job) -> bool:
    """Whether it only stands for a job that the inventory has no more: watched, not relaunched."""
    return any(_REMOVED in word for word in job.command)


def rebuilt_key(run: str) -> str:
    """Where it is kept that a run is known from its target alone."""
    return f"rebuilt.{run}"


def _key(run: Run) -> str:
    return f"adopted.{run.id}"
