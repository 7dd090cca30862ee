"""The output of a run that another daemon saw end: from its target, once somebody asks for it.

Owns what is missing here, and the sentence where it cannot be had. Nothing is detected or decided
by what comes: that was done when the run ended.
"""

import asyncio
import logging
from collections.abc import Collection, Mapping
from dataclasses import replace

from orchestrator.clock import Clock
from orchestrator.core.errors import OrchError, StoreError, TargetError, Unreachable
from orchestrator.core.events import Exited, LogBytes, LogGap, MetricLines, RelayGone
from orchestrator.core.model import Attempt, Job, Run
from orchestrator.core.parse.masking import Mask
from orchestrator.core.parse.metrics import PatternMetrics, WholeLines
from orchestrator.daemon.adopted import job_of
from orchestrator.daemon.environment import Environment
from orchestrator.daemon.fleet import Fleet
from orchestrator.daemon.inventory_file import InventoryFile
from orchestrator.daemon.leasing import Leasing
from orchestrator.link.calls import CallFailed
from orchestrator.link.link import Link
from orchestrator.observe.follow import Follower, follow
from orchestrator.progress import step_of
from orchestrator.reading import covered_beside, place_of, read_to
from orchestrator.store import points
from orchestrator.store.store import Store

WAITED_S = 40.0
"""A client waits for a minute; what is longer goes on, and is there the next time."""

logger = logging.getLogger(__name__)


class Fetching:
    """What of ended runs is still with others."""

    def __init__(
        self,
        *,
        store: Store,
        fleet: Fleet,
        leasing: Leasing,
        file: InventoryFile,
        environment: Environment,
        clock: Clock,
    ) -> None:
        self._store, self._fleet, self._leasing = store, fleet, leasing
        self._file, self._environment, self._clock = file, environment, clock
        self._settled: dict[tuple[str, int], str | None] = {}
        """Attempts that were asked for: None, or why nothing more can be had."""
        self._tasks: dict[tuple[str, int], asyncio.Task[str | None]] = {}

    async def have(self, run: Run, attempts: Collection[int] = ()) -> None:
        """Wait until the output of an ended run is here; OrchError where none of it can be had.

        `attempts` are those that are asked for; none: what all of them have in one, the metrics.
        What is here of an attempt whose rest is gone ends in a gap of the size that is missing.
        """
        if not (run.state.ended and self._leasing.shared and self._leasing.drives(run.host)):
            return
        gone: list[str] = []
        for attempt in await self._to_ask_for(run, attempts):
            key = (run.id, attempt.number)
            if key not in self._settled and self._is_missing(run, attempt.number):
                await self._wait_for(run, attempt)
            lost = self._settled.get(key)
            asked = not attempts or attempt.number in attempts
            if asked and lost is not None and not self._store.logs.end(*key):
                gone.append(lost)
        if gone:
            raise OrchError(gone[0], remedy=self._remedy(run))

    async def _to_ask_for(self, run: Run, attempts: Collection[int]) -> list[Attempt]:
        """The attempts that may have to be fetched, oldest first."""
        known = await self._store.runs.attempts(run.id)
        if place_of(run) is None:
            return []
        if self._is_ours(run):
            # What was seen to end here is here, or was forgotten; an earlier attempt may have
            # ended before the host was ours.
            earlier = [one for one in known if one.number in attempts and one.number < run.attempt]
            return [one for one in earlier if not await self._suffices(run, one.number)]
        if attempts and not any(self._is_missing(run, number) for number in attempts):
            return []
        # All of them: the points in a newer one's output stand behind those of an earlier one.
        return [
            one
            for one in known
            if not (one.number < run.attempt and await self._suffices(run, one.number))
        ]

    def _is_ours(self, run: Run) -> bool:
        """Whether this daemon saw the end of its newest attempt."""
        return place_of(run) == self._store.place

    async def _suffices(self, run: Run, attempt: int) -> bool:
        """Whether what is here of an attempt is shown, since its target cannot say if it is all."""
        if not self._store.logs.end(run.id, attempt):
            return False
        job = await job_of(self._store, run, self._file.current())
        if job is None:
            return True
        try:
            link = self._fleet.link(job.target)
            if link.problem is None:
                # It may have been begun just now: until its first attempt it is not known as away.
                async with asyncio.timeout(WAITED_S):
                    await link.start()
        except (TargetError, TimeoutError):
            return True
        return link.problem is not None

    def _is_missing(self, run: Run, attempt: int) -> bool:
        if attempt == run.attempt:
            return self._store.logs.end(run.id, attempt) < read_to(run)
        # How long an earlier attempt became nobody noted: its target is asked.
        return True

    async def _wait_for(self, run: Run, attempt: Attempt) -> None:
        key = (run.id, attempt.number)
        task = self._tasks.get(key)
        if task is None:
            task = asyncio.create_task(self._fetched(run, attempt), name=f"fetch {run.id}")
            self._tasks[key] = task
        if not (await asyncio.wait({task}, timeout=WAITED_S))[0]:
            here = self._store.logs.end(*key)
            raise OrchError(
                f"The output of {run.id} is being fetched from {run.target}: {here} bytes so far.",
                remedy="Ask again in a moment.",
            )
        self._tasks.pop(key, None)
        self._settled[key] = task.result()

    async def _fetched(self, run: Run, attempt: Attempt) -> str | None:
        """None once all is here, or why it never will be; Unreachable where it may be later."""
        job = await job_of(self._store, run, self._file.current())
        if job is None:
            return f"{self._beginning(run, attempt)}, which this inventory does not know."
        link = self._fleet.link(job.target)
        try:
            await self._fetch(run, attempt, job, link)
        except CallFailed as error:
            self._note_gap(run, attempt.number)
            return f"{self._beginning(run, attempt)}, where it is no more: {error.message}"
        logger.info("log.fetched", extra={"run": run.id, "attempt": attempt.number})
        return None

    async def _fetch(self, run: Run, attempt: Attempt, job: Job, link: Link) -> None:
        store, name = self._store, job.secrets
        secrets = tuple(value for one in name for value in self._environment.every_value(one))
        begin, metrics_begin = (
            store.logs.end(run.id, attempt.number),
            store.metrics.end(run.id, points.WRITTEN),
        )
        follower = await follow(
            link,
            replace(run, attempt=attempt.number),
            attempt.directory,
            clock=self._clock,
            log_offset=begin,
            metrics_offset=metrics_begin,
            linked=job.adopts is not None and job.adopts.what.isdigit(),
        )
        try:
            # Of what is read after a newer attempt's, no point could stand before that one's.
            found = Found({} if self._is_ours(run) else job.watch.metrics)
            await self._keep(run, attempt.number, follower, secrets, found)
        finally:
            await follower.close()
            store.logs.close(run.id, attempt.number)
            for place in (points.WRITTEN, points.FOUND):
                store.metrics.close(run.id, place)

    async def _keep(
        self,
        run: Run,
        attempt: int,
        follower: Follower,
        secrets: tuple[str, ...],
        found: "Found",
    ) -> None:
        logs, metrics = self._store.logs, self._store.metrics
        printed, measured = Mask(secrets), Mask(secrets, of_json=True)
        async for event in follower:
            match event:
                case LogBytes():
                    covered = await covered_beside(printed, event.offset, event.data)
                    kept = logs.append(run.id, attempt, event.offset, covered, event.at)
                    # A minute's work for a long run's log, of which all comes at once.
                    told = await asyncio.to_thread(found.take, kept.fresh, event.at)
                    points.keep(metrics, run.id, told, event.at)
                    await follower.stored(event)
                case LogGap():
                    logs.gap(run.id, attempt, event.offset, event.end - event.offset)
                    await follower.stored(event)
                case MetricLines():
                    covered = await covered_beside(measured, event.offset, event.data)
                    metrics.append(run.id, points.WRITTEN, event.offset, covered, event.at)
                    await follower.stored(event)
                case Exited() | RelayGone():
                    return
                case _:
                    pass
        # Its target was edited, or its host was handed over: what is here is not all.
        raise Unreachable(
            f"The output of {run.id} was being fetched from {run.target} when the link was "
            f"closed: {logs.end(run.id, attempt)} bytes so far.",
            target=run.target,
            remedy="Ask again in a moment.",
        )

    def _note_gap(self, run: Run, attempt: int) -> None:
        """Of what is here in part, the rest is a gap of known size."""
        end, known = self._store.logs.end(run.id, attempt), read_to(run)
        if attempt != run.attempt or not 0 < end < known:
            return
        try:
            self._store.logs.gap(run.id, attempt, end, known - end)
        except (OSError, StoreError) as error:
            logger.warning("gap.not_stored", extra={"run": run.id, "why": str(error)})

    def _beginning(self, run: Run, attempt: Attempt) -> str:
        if self._is_ours(run):
            return (
                f"Attempt {attempt.number} of {run.id} has no output here; it ran on {run.target}"
            )
        return (
            f"The output of {run.id} is not here, since another daemon saw it end on {run.target}"
        )

    def _remedy(self, run: Run) -> str:
        if self._is_ours(run):
            return "If another daemon saw that attempt end, it has the output."
        return f"That daemon has it: {place_of(run)}."


class Found:
    """What the inventory's patterns find in the output of one attempt, however fast it comes.

    A flood is passed over while a run lives, for the sake of the others; here it is only fetched.
    """

    def __init__(self, patterns: Mapping[str, str]) -> None:
        self._patterns, self._lines = PatternMetrics(patterns), WholeLines()
        self._step: int | None = None

    def take(self, fresh: bytes, at: float) -> list[bytes]:
        """The points in the next bytes, which were seen at unix time `at`."""
        found = []
        for values in filter(None, map(self._patterns.read, self._lines.feed(fresh))):
            self._step = step_of(values, self._step)
            found.append(points.point(self._step, values, at))
        return found
