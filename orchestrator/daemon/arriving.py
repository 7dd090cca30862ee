"""Whether a run is where its target leads, before anything is done there or said of it.

Owns the one question to a target whose address was edited, and what its answer means. Must not:
decide anything of a run.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import PurePosixPath

from orchestrator.clock import Clock
from orchestrator.core.errors import OrchError, TargetError
from orchestrator.core.model import Run, Target
from orchestrator.daemon.placed import is_elsewhere
from orchestrator.link.link import Link
from orchestrator.store.store import Store

ASK_WITHIN_S = 30.0
AGAIN_FIRST_S = 1.0
AGAIN_MOST_S = 30.0

logger = logging.getLogger(__name__)


async def has_run(link: Link, run: Run) -> bool:
    """Whether a target knows the folder of a run; TargetError where it does not answer."""
    folder = PurePosixPath(run.directory)
    answer = await link.call(
        "runs_known",
        timeout_s=ASK_WITHIN_S,
        workdir=str(folder.parent.parent),
        names=[folder.name],
    )
    return bool(answer["runs"])


class Arrival:
    """Of one supervisor: whether its link leads to its run."""

    def __init__(
        self,
        store: Store,
        link: Link,
        clock: Clock,
        run: Run,
        target: Target,
        told: Callable[[bool], None],
    ) -> None:
        """`told` is called with whether the run is there, where that was in doubt."""
        self._store, self._link, self._clock, self._run = store, link, clock, run
        self._told = told
        self._now = replace(target, name=run.target)
        self._there = asyncio.Event()
        was = run.whereabouts
        self._doubted = was is not None and is_elsewhere(was, target)
        if not self._doubted:
            self._there.set()

    async def there(self) -> None:
        """Until it is known that the run is there; for ever where it is not."""
        await self._there.wait()

    async def seek(self) -> None:
        """Find it out, and keep where the run is; TargetError where it is not there."""
        if self._run.whereabouts == self._now:
            return
        # Of one that an older orch stored only what is seen is kept, and nothing waits for that.
        asked = self._doubted or self._run.whereabouts is None
        found = await self._is_there() if asked else True
        if self._doubted:
            self._told(found)
        if found:
            await self._keep()
        elif self._doubted:
            at = self._link.target.name
            raise TargetError(f"{self._run.id} is not at {at}.", target=at)
        self._there.set()

    async def _keep(self) -> None:
        try:
            await self._store.runs.update(self._run.id, whereabouts=self._now)
        except OrchError as error:
            logger.warning("run.place_not_kept", extra={"run": self._run.id, "why": str(error)})

    async def _is_there(self) -> bool:
        delay_s, told = AGAIN_FIRST_S, ""
        while True:
            try:
                return await has_run(self._link, self._run)
            except OrchError as error:
                if str(error) != told:
                    told = str(error)
                    logger.info("run.sought", extra={"run": self._run.id, "why": told})
                await self._clock.sleep(self._clock.jitter(delay_s))
                delay_s = min(2 * delay_s, AGAIN_MOST_S)
