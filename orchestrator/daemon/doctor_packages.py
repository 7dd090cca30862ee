"""Whether the package of each job could be shipped as it is now; asks no target."""

import asyncio

from orchestrator.core.errors import Check, OrchError
from orchestrator.core.model import Job
from orchestrator.daemon import shipping
from orchestrator.daemon.parts import Parts


async def package_checks(parts: Parts) -> list[Check]:
    """One check for each job that has a package: what `orch deploy` would refuse, it says too."""
    jobs = [job for job in parts.inventory.jobs.values() if job.package is not None]
    return list(await asyncio.gather(*(_check(parts, job) for job in jobs)))


async def _check(parts: Parts, job: Job) -> Check:
    name = f"package of {job.name}"
    try:
        bundle = await shipping.collected(parts, job)
    except OrchError as exc:
        return Check(name=name, ok=False, text=exc.message, remedy=exc.remedy)
    count = f"{bundle.files} file{'' if bundle.files == 1 else 's'}"
    size = f"{count}, {bundle.bytes / 1024**2:.1f} MiB"
    return Check(name=name, ok=True, text=f"{job.package} can be shipped: {size}")
