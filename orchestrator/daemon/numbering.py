"""Numbers of runs that were taken before this state folder was: never used again.

A run's id is in alerts, records, sessions and folders on its target; a second run of the same id
would be taken for the first. It must not number runs, the store does.
"""

import asyncio

from orchestrator.core.model import Job
from orchestrator.daemon.parts import Parts

WITHIN_S = 30.0


async def settle(parts: Parts, job: Job) -> None:
    """Before a job's first run that this store knows of: what its targets have counts as taken.

    Raises what a call raises: without an answer of each target no number is safe.
    """
    if await parts.store.runs.has_numbers(job.name):
        return
    asked = (
        parts.fleet.link(target).call(
            "runs_highest", timeout_s=WITHIN_S, workdir=job.workdir, job=job.name
        )
        for target in job.targets
    )
    answers = await asyncio.gather(*asked)
    await parts.store.runs.take(job.name, max(int(answer["number"]) for answer in answers))
