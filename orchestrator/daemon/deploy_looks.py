"""What a job finds around it once its release is there: looked at behind the deploy's back.

Owns the looks that are under way. A deploy neither waits for one nor fails with it.
"""

import asyncio
import contextlib
import logging

from orchestrator.core.errors import OrchError
from orchestrator.core.model import Job, Release
from orchestrator.deploy.environment import fingerprint
from orchestrator.link import Link
from orchestrator.store.history import Releases

_AFTER_S = 0.5
"""The command that deployed has printed its last line by then."""
_WAITED_FOR_S = 5.0
"""A launch does without a look that takes longer."""

logger = logging.getLogger(__name__)


class DeployLooks:
    """Looks that go on after their deploy was answered."""

    def __init__(self, releases: Releases) -> None:
        self._releases = releases
        self._looking: dict[asyncio.Task[None], tuple[str, str]] = {}
        """With the names of job and target."""
        self._wanted = asyncio.Event()
        """Somebody waits for a look that is due."""

    def look(self, link: Link, job: Job, release: Release, number: int) -> None:
        """Begin to look; `number` is that of the deploy among all that are kept."""
        task = asyncio.create_task(
            self._look(link, job, release, number), name=f"look {job.name} {release.digest}"
        )
        self._looking[task] = (job.name, job.target.name)
        task.add_done_callback(self._looking.pop)

    async def taken(self, job: Job) -> None:
        """Until a look at the job's target that is under way is kept, or has failed; or 5 s."""
        place = (job.name, job.target.name)
        if waited_for := {task for task, at in self._looking.items() if at == place}:
            self._wanted.set()
            await asyncio.wait(waited_for, timeout=_WAITED_FOR_S)
            self._wanted.clear()

    async def close(self) -> None:
        """Look no further."""
        for task in self._looking:
            task.cancel()
        await asyncio.gather(*self._looking, return_exceptions=True)

    async def _look(self, link: Link, job: Job, release: Release, number: int) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_AFTER_S):
                await self._wanted.wait()
        try:
            found = await fingerprint(link, job, release)
            await self._releases.keep_environment(number, found)
        except OrchError as error:
            logger.warning("deploy.not_looked", extra={"job": job.name, "why": str(error)})
