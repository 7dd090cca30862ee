"""Whether the package of each job could be shipped as it is now; asks no target."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from orchestrator.core.errors import Check, OrchError
from orchestrator.core.model import Job
from orchestrator.daemon.parts import Parts
from orchestrator.deploy.bundle import Bundle, collect

MOST_UNREAD_BYTES = 1024**3
"""Of all packages together: a person waits for the answer, and a deploy has to read them anyway."""


class _UnreadError(Exception):
    """A package has more that was never read than is read here."""


async def package_checks(parts: Parts) -> list[Check]:
    """One check for each job that has a package: what `orch deploy` would refuse, it says too.

    One after the other: each reads as fast as the disk lets it.
    """
    left_bytes = MOST_UNREAD_BYTES
    checks = []

    def read(num_bytes: int) -> None:
        nonlocal left_bytes
        if num_bytes > left_bytes:
            raise _UnreadError(f"{num_bytes / 1024**3:.1f} GiB")
        left_bytes -= num_bytes

    for job in parts.inventory.jobs.values():
        if job.package is not None:
            now = parts.clock.now()
            looked = asyncio.to_thread(
                collect,
                job,
                cache=parts.packages.hashes,
                now=now,
                on_unread=read,
                inventory=parts.location.inventory,
            )
            checks.append(await _check(job, looked))
    return checks


async def _check(job: Job, looked: Coroutine[Any, Any, Bundle]) -> Check:
    name = f"package of {job.name}"
    try:
        bundle = await looked
    except OrchError as exc:
        return Check(name=name, ok=False, text=exc.message, remedy=exc.remedy)
    except OSError as exc:
        text = f"{job.package} could not be looked at: {exc}"
        return Check(name=name, ok=False, text=text, remedy="See that it is there and at rest.")
    except _UnreadError as exc:
        return Check(
            name=name,
            ok=False,
            text=f"{job.package} was not checked: {exc} of it were never read",
            remedy=f"`orch deploy --dry-run {job.name}` reads them, and says what it would refuse.",
            critical=False,
        )
    count = f"{bundle.files} file{'' if bundle.files == 1 else 's'}"
    size = f"{count}, {bundle.bytes / 1024**2:.1f} MiB"
    return Check(name=name, ok=True, text=f"{job.package} can be shipped: {size}")
