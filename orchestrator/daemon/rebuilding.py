"""After a database was damaged, or lost its end: the runs come back from what their targets know.

Owns what is asked and what is made of the answers; each run's own supervisor then reads its log and
its exit record as it always does. Only runs whose folders here say that they are ours come back.
Of one that had ended while the old database was still written nothing is told again.
"""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from orchestrator.clock import Clock
from orchestrator.core.errors import (
    AuthRefused,
    HostKeyRefused,
    NoSuchRun,
    RemoteCommandFailed,
    StoreError,
    Unreachable,
)
from orchestrator.core.model import Attempt, Job, Run, RunState, Target, number_of
from orchestrator.core.parse.exit_record import exit_record
from orchestrator.daemon.adopted import rebuilt_key
from orchestrator.daemon.coming_back import ComingBack, Place
from orchestrator.daemon.crew import Crew
from orchestrator.daemon.fleet import Fleet
from orchestrator.daemon.inventory_file import InventoryFile
from orchestrator.store.store import Store

KEY = "rebuilding"
"""Where it is kept what is still to be asked, so that a daemon which dies over it goes on."""
AGAIN_S = 5.0
REFUSED_AGAIN_S = 60.0
ASK_WITHIN_S = 120.0
JUDGED_WITHIN_S = 60.0

_PASSING = (Unreachable, AuthRefused, HostKeyRefused, StoreError)
"""What somebody or time will mend."""
_DAMAGED = (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError)
"""What comes of a record with anything in any place."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Rebuilding:
    """Asks every target of the inventory once, however long that takes."""

    clock: Clock
    file: InventoryFile
    store: Store
    fleet: Fleet
    crew: Crew
    back: ComingBack

    async def run(self) -> None:
        """Until all have been asked; at once where nothing was lost."""
        try:
            if self.store.leases is None:  # a shared database has keepers of its own
                await self._insist(self._rebuild)
        except Exception:
            # Nobody may wait for ever for runs that nobody asks for any more.
            logger.exception("store.rebuilding_failed")
        self.back.ask(set())

    async def _insist(self, step: Callable[[], Awaitable[None]]) -> None:
        """Until it is done: a store that takes nothing for a while, or a host that is not there."""
        told = ""
        while True:
            try:
                return await step()
            except _PASSING as error:
                if str(error) != told:
                    logger.warning("store.rebuilding_waits", extra={"why": str(error)})
                told = str(error)
            await self.clock.sleep(AGAIN_S)

    async def _rebuild(self) -> None:
        claimed = await asyncio.to_thread(self.store.logs.claimed)
        todo = await self._todo(claimed)
        if todo is None:
            return
        names = {job: _names(job, claimed) for job in self.file.current().jobs}
        places = [
            Place(job.name, target.name)
            for job in self.file.current().jobs.values()
            if names[job.name]
            for target in job.targets
        ]
        self.back.ask(set(places))
        async with asyncio.TaskGroup() as tasks:
            for place in places:
                asking = partial(self._place, place, names[place.job], float(todo["until"]))
                tasks.create_task(self._ask(place, asking))
        await self._insist(partial(self.store.values.set, KEY, {**todo, "done": True}))
        logger.info("store.rebuilt", extra={"aside": todo["aside"]})

    async def _ask(self, place: Place, asking: Callable[[], Awaitable[None]]) -> None:
        """What nobody thought of at one place costs no other one; the next start asks it again."""
        try:
            await self._insist(asking)
        except Exception:
            logger.exception("store.not_rebuilt", extra={"target": place.target})
            self.back.asked(place)

    async def _todo(self, claimed: Mapping[str, str]) -> Mapping[str, Any] | None:
        """What was lost and is not asked for yet; None where that is nothing."""
        aside = self.store.set_aside
        known = {run.id for run in await self.store.runs.list()}
        begun = await self.store.values.get(KEY)
        if aside is None and (begun is None or begun["done"]) and not claimed.keys() - known:
            return None
        if aside is None and begun is not None and not begun["done"]:
            return dict(begun)
        # A file whose WAL is gone is whole, and knows nothing of what came last.
        until = self.store.logs.written_at() if aside is None else _written(aside)
        todo = {"aside": str(aside) if aside else None, "until": until, "done": False}
        await self.store.values.set(KEY, todo)
        return todo

    async def _place(self, place: Place, names: list[str], until: float) -> None:
        """Ask one place, by what the inventory says of it now: its address may be mended."""
        await self.crew.take_up()
        while (here := self._here(place)) is not None:
            job, target = here
            try:
                answer = await self.fleet.link(target).call(
                    "runs_known", timeout_s=ASK_WITHIN_S, workdir=job.workdir, names=names
                )
            except RemoteCommandFailed as error:
                logger.warning(
                    "store.not_rebuilt", extra={"target": target.name, "why": str(error)}
                )
                self.back.refused(place, str(error))
                await self.clock.sleep(REFUSED_AGAIN_S)
                continue
            # A target may name what it likes; only what is ours by its logs here is.
            ours = [one for one in answer["runs"] if one["name"] in names]
            for known in sorted(ours, key=lambda one: _number(one["name"])):
                await self._take(job, target, known, until)
            break
        self.back.asked(place)

    def _here(self, place: Place) -> tuple[Job, Target] | None:
        """None where the inventory has it no more."""
        job = self.file.current().jobs.get(place.job)
        found = [one for one in job.targets if one.name == place.target] if job else []
        return (job, found[0]) if job and found else None

    async def _take(self, job: Job, target: Target, known: Mapping[str, Any], until: float) -> None:
        try:
            asked = known["attempts"][-1]["attempt"].get("asked") or {}
            if asked.get("target", target.name) != target.name:
                return  # another target sees the same folder
            run, attempts = _run_of(job, target, known, asked)
            end = known["attempts"][-1]["exit"]
            ended = end is not None and exit_record(end).ended_at <= until
        except _DAMAGED as error:
            # What a program or a power cut made of its records must not cost the others.
            why = f"its records there are damaged: {type(error).__name__}: {error}"
            logger.warning("run.not_rebuilt", extra={"run": known["name"], "why": why})
            return
        try:
            await self.store.runs.get(run.id)
        except NoSuchRun:
            pass
        else:
            return
        await self.store.values.set(
            rebuilt_key(run.id), {"ended": ended, "whole": bool(asked.get("whole"))}
        )
        await self.store.runs.rebuild(run, attempts)
        logger.info("run.rebuilt", extra={"run": run.id, "target": target.name, "ended": ended})
        await self.crew.take_up()
        self.back.came()
        if ended:
            # One after the other, so that a later run that finished resolves the earlier ones'.
            await self.crew.over(run.id, JUDGED_WITHIN_S)


def _names(job: str, claimed: Mapping[str, str]) -> list[str]:
    """Folders of the job's runs that are ours."""
    return [f"{run}.{uid}" for run, uid in claimed.items() if run.rpartition("-")[0] == job]


def _written(aside: Path) -> float:
    """When the lost database was written last."""
    parts = (aside, aside.with_name(f"{aside.name}-wal"))
    return max(part.stat().st_mtime for part in parts if part.exists())


def _number(name: str) -> int:
    return number_of(name.rpartition(".")[0])


def _run_of(
    job: Job, target: Target, known: Mapping[str, Any], asked: Mapping[str, Any]
) -> tuple[Run, tuple[Attempt, ...]]:
    ident, _, uid = known["name"].rpartition(".")
    directory = str(PurePosixPath(job.workdir) / "runs" / known["name"])
    first, last = known["attempts"][0], known["attempts"][-1]
    started_at = _time(first["attempt"]["started_at"])
    run = Run(
        id=ident,
        uid=uid,
        job=job.name,
        target=target.name,
        number=_number(known["name"]),
        state=RunState.RUNNING,
        attempt=int(last["number"]),
        session=str(last["attempt"].get("session") or job.session or job.name),
        directory=directory,
        release=_release(job, last["attempt"]),
        why=str(asked.get("why", "rebuilt from what its target knew")),
        args=tuple(map(str, asked.get("args") or ())),
        env={str(name): str(value) for name, value in (asked.get("env") or {}).items()},
        forced=bool(asked.get("forced")),
        created_at=started_at,
        started_at=started_at,
        whereabouts=target,
    )
    attempts = tuple(_attempt(directory, one, newest=one is last) for one in known["attempts"])
    return run, attempts


def _attempt(directory: str, known: Mapping[str, Any], *, newest: bool) -> Attempt:
    """The end of the newest one is left to be seen, so that it is judged."""
    number = int(known["number"])
    end = None if newest or not known["exit"] else exit_record(known["exit"])
    return Attempt(
        number=number,
        directory=f"{directory}/attempt-{number}",
        started_at=_time(known["attempt"]["started_at"]),
        ended_at=end.ended_at if end else None,
        exit_code=end.code if end else None,
        signal=end.signal if end else None,
    )


def _time(value: Any) -> float:
    """Unix seconds; ValueError where they are none that a database keeps."""
    moment = float(value)
    if not math.isfinite(moment):
        raise ValueError("a time that is none")
    return moment


def _release(job: Job, record: Mapping[str, Any]) -> str | None:
    """WORKDIR/releases/<digest>/<package name> is where it worked."""
    folder = PurePosixPath(str(record.get("cwd") or "/"))
    within = PurePosixPath(job.workdir) / "releases"
    return folder.parent.name if folder.parent.parent == within else None
