"""What a job finds around it once its release is there: looked at behind the deploy's back.

Owns the looks that are under way. A deploy neither waits for one nor fails with it.
"""

import asyncio
import logging

from orchestrator.clock import Clock
from orchestrator.core.errors import OrchError
from orchestrator.core.model import Job, Release
from orchestrator.deploy.environment import fingerprint
from orchestrator.link import Link
from orchestrator.store.history import Releases

_AFTER_S = 0.5
"""The command that deployed has printed its last line by then."""

logger = logging.getLogger(__name__)


class DeployLooks:
    """Looks that go on after their deploy was answered."""

    def __init__(self, releases: Releases, clock: Clock) -> None:
        self._releases, self._clock = releases, clock
        self._looking: set[asyncio.Task[None]] = set()

    def look(self, link: Link, job: Job, release: Release, number: int) -> None:
        """Begin to look; `number` is that of the deploy among all that are kept."""
        task = asyncio.create_task(
            self._look(link, job, release, number), name=f"look {job.name} {release.digest}"
        )
        self._looking.add(task)
        task.add_done_callback(self._looking.discard)

    async def settled(self) -> None:
        """Until all looks that were begun are kept, or have failed."""
        if self._looking:
            await asyncio.wait(set(self._looking))

    async def close(self) -> None:
        """Look no further."""
        for task in self._looking:
            task.cancel()
        await self.settled()

    async def _look(self, link: Link, job: Job, release: Release, number: int) -> None:
        await self._clock.sleep(_AFTER_S)
        try:
            found = await fingerprint(link, job, release)
            await self._releases.keep_environment(number, found)
        except OrchError as error:
            logger.warning("deploy.not_looked", extra={"job": job.name, "why": str(error)})
