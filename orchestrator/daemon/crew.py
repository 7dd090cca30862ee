"""One supervisor for each run that lives: started, resumed after a restart, shown on the board.

It owns the supervisors' tasks; display.py shows what they know. It must not decide for a run.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from orchestrator.clock import Clock
from orchestrator.core.decide.decision import RunView
from orchestrator.core.decide.inputs import Accepted, PolicyChanged, StopAsked
from orchestrator.core.decide.lifecycle import decide
from orchestrator.core.errors import NotDriven, OrchError
from orchestrator.core.model import Inventory, Job, LinkState, Run, RunState, Target
from orchestrator.daemon.adopted import jobs_of
from orchestrator.daemon.board import Board
from orchestrator.daemon.display import Display
from orchestrator.daemon.environment import Environment
from orchestrator.daemon.fleet import Fleet
from orchestrator.daemon.gate import Gate
from orchestrator.daemon.heeding import Heeding
from orchestrator.daemon.placed import where
from orchestrator.daemon.recruiting import Recruiting
from orchestrator.daemon.stopping import Ending, Stopping, kept
from orchestrator.store.store import Store
from orchestrator.supervise import Supervisor

RESTART_AFTER_S = 5.0
CANCELLED_WITHIN_S = 5.0

logger = logging.getLogger(__name__)


class Crew:
    """The supervisors of all live runs."""

    def __init__(
        self,
        *,
        store: Store,
        board: Board,
        fleet: Fleet,
        clock: Clock,
        environment: Environment,
        inventory: Callable[[], Inventory],
        drives: Callable[[str], bool],
        evidence: Path,
    ) -> None:
        self._store, self._fleet, self._clock = store, fleet, clock
        self._inventory, self._drives = inventory, drives
        self._taking_up = asyncio.Lock()
        self._beginning: set[str] = set()
        self._members: dict[str, Supervisor] = {}
        self._tasks: dict[str, asyncio.Task[Ending | None]] = {}
        self.display = Display(
            store=store, board=board, fleet=fleet, drives=drives, members=self._members
        )
        self._recruiting = Recruiting(
            store=store,
            fleet=fleet,
            clock=clock,
            environment=environment,
            inventory=inventory,
            display=self.display,
            evidence=evidence,
            gate=Gate(clock),
        )
        self.heeding = Heeding(
            store=store,
            clock=clock,
            display=self.display,
            members=self._members,
            inventory=inventory,
            policy=self._recruiting.policy,
        )
        self.stopping = Stopping(
            clock=clock,
            store=store,
            fleet=fleet,
            drives=drives,
            members=self._members,
            tasks=self._tasks,
            take_up=self.take_up,
        )

    async def resume(self) -> None:
        """Show the newest runs, and take up every one that is not finished."""
        await self.display.refresh()
        await self.take_up()

    async def take_up(self) -> None:
        """Give a supervisor to each unfinished run that this daemon drives, and that has none."""
        async with self._taking_up:
            left = [
                run
                for run in await self._unfinished()
                if run.id not in self._members
                and run.uid not in self._beginning
                and self._drives(run.host)
            ]
            jobs = await jobs_of(self._store, left, self._inventory())
            stops = await kept(self._store, left)
            # Asked for at once: run by run, those that were begun before are in the way.
            for view in await self._store.views(run.id for run in left):
                try:
                    await self._take_up(view, jobs[view.run.id], stops.get(view.run.id))
                except NotDriven as error:
                    # Its host was lost over this; whoever has it now takes its runs up.
                    logger.info("run.left", extra={"run": view.run.id, "why": str(error)})

    @contextmanager
    def beginning(self, *uids: str) -> Iterator[None]:
        """Runs that are being stored here: pending without a supervisor, and not forsaken."""
        self._beginning.update(uids)
        try:
            yield
        finally:
            self._beginning.difference_update(uids)

    async def _take_up(self, view: RunView, job: Job | None, stop: StopAsked | None) -> None:
        run = view.run
        self._store.logs.claim(run.id, run.uid)
        if job is None:
            logger.error("run.jobless", extra={"run": run.id, "job": run.job})
        elif run.state is RunState.PENDING:
            await self._forsake(run, job)
        else:
            member = self._recruiting.member(view, job)
            if stop is not None:
                member.tell(stop)
            self._start(member)

    async def look_again(self) -> None:
        """Follow a run to the address that was edited, where it is found there later."""
        if await self._recruiting.look_again([one.view.run for one in self._members.values()]):
            await self.follow_inventory()

    async def follow_inventory(self) -> None:
        """What it says now of restarts and of targets counts for runs that live, or end still."""
        runs = [member.view.run for member in self._members.values()]
        for ident, job in (await jobs_of(self._store, runs, self._inventory())).items():
            if (member := self._members.get(ident)) is None:
                continue
            now = self._recruiting.placed(member.view.run, member.job)
            now = now if job is None else replace(now, restart=job.restart)
            if now.targets != member.job.targets:
                await self._begin_anew(ident, now)
            elif now.restart != member.job.restart:
                member.job = now
                member.tell(PolicyChanged())

    async def _begin_anew(self, ident: str, job: Job) -> None:
        """Another supervisor, on a link as the target is reached now; the former one is closed."""
        async with self._taking_up:
            if (member := self._members.get(ident)) is None:
                return
            task = self._tasks[ident]
            await _cancelled([task])
            if task.cancelled():
                member = self._members.get(ident, member)
                member.job = job
                self._start(member, anew=True)

    async def let_go(self, lost: Collection[str]) -> None:
        """Leave the runs of these hosts to the daemons that drive them now, or did for a while.

        A host that is ours again by now was another's: what is known here of its runs is old.
        """
        async with self._taking_up:
            runs = {run: member.view.run for run, member in self._members.items()}
            left = (run for run in runs.values() if run.host in lost or not self._drives(run.host))
            gone = [run.id for run in left]
            await _cancelled([self._tasks[ident] for ident in gone])
            for ident in gone:
                self._members.pop(ident, None)
                del self._tasks[ident]
                self._recruiting.forget(ident)

    async def _unfinished(self) -> tuple[Run, ...]:
        """Runs that live, and those whose last actions a daemon did not see the end of."""
        live = await self._store.runs.list(live=True)
        known = {run.id for run in live}
        left = {action.run for action in await self._store.actions.pending()} - known
        return (*live, *[await self._store.runs.get(run) for run in sorted(left)])

    async def _forsake(self, run: Run, job: Job) -> None:
        """A daemon died before its first decision: whoever asked for it was told of an error."""
        view = await self._store.view(run.id)
        decision = decide(view, StopAsked(), await self._recruiting.policy(job), self._clock.now())
        await self._store.apply(decision)
        await self.display.show(run.id)

    async def begin(self, run: Run, job: Job) -> None:
        """Store a new run's first decision, its launch, and give it a supervisor."""
        self._store.logs.claim(run.id, run.uid)
        view = await self._store.view(run.id)
        decision = decide(view, Accepted(), await self._recruiting.policy(job), self._clock.now())
        await self._store.apply(decision)
        view = await self._store.view(run.id)
        self._start(self._recruiting.member(view, job))
        await self.display.show(run.id)

    async def is_ours(self, run: str) -> bool:
        """Whether this daemon drives the run's host, and so tells of its incidents."""
        return self._drives((await self._store.runs.get(run)).host)

    def where(self, run: Run) -> Target | None:
        """The target at which a run is; None where nobody knows."""
        member = self._members.get(run.id)
        return where(run, self._inventory()) if member is None else member.job.target

    def targets(self) -> list[Target]:
        """Where the runs are that have a supervisor."""
        return [member.job.target for member in self._members.values()]

    def sees_all(self) -> bool:
        """Whether the target of every live run can be seen now."""
        live = [one for one in self._members.values() if not one.view.run.state.ended]
        targets = {one.job.target_named(one.view.run.target).name for one in live}
        return all(self._fleet.named(name)[0] is LinkState.CONNECTED for name in targets)

    async def settle(self, run: Run, within_s: float) -> None:
        """Wait, for a while, until nothing is done any more for a run that has ended."""
        if run.state.ended:
            await self.over(run.id, within_s)

    async def over(self, run: str, within_s: float) -> None:
        """Wait, for a while, until a run has ended and nothing is done for it any more."""
        task = self._tasks.get(run)
        if task is not None:
            await asyncio.wait({task}, timeout=within_s)

    async def close(self) -> None:
        """Let go of every run; they go on without us."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    # --- supervisors -----------------------------------------------------------------------------

    def _start(self, member: Supervisor, *, anew: bool = False) -> None:
        run = member.view.run.id
        self._members[run] = member
        self._tasks[run] = asyncio.create_task(self._supervise(member, anew), name=f"run {run}")

    async def _supervise(self, member: Supervisor, anew: bool) -> Ending | None:
        """The run to its end, `anew` by one in its place; gives what a stop of it came to."""
        run = member.view.run
        while True:
            try:
                if not anew:
                    await member.supervise()
                    break
            except Exception:  # the supervisor loop is one of two places that may
                known = member.deaf or self._recruiting.is_refuted(member)
                level = logging.INFO if known else logging.ERROR
                said = {"run": run.id, "job": run.job}
                logger.log(level, "supervisor.failed", exc_info=True, extra=said)
            member, anew = await self._again(member), False
            self._members[run.id] = member
        self._members.pop(run.id, None)
        self._recruiting.forget(run.id)
        try:
            await self.display.show(run.id)
        except OrchError as error:
            logger.warning("run.not_shown", extra={"run": run.id, "why": str(error)})
        self.display.bell(run.id).ring()
        return member.actor.ending

    async def _again(self, member: Supervisor) -> Supervisor:
        """One in its place, once the store answers and the target is ours to reach.

        What a person said and nobody decided on is told to it. No failure ends the trying: a run
        that nobody supervises would look alive for ever.
        """
        run = member.view.run
        while True:
            await self._clock.sleep(RESTART_AFTER_S)
            try:
                again = self._recruiting.member(await self._store.view(run.id), member.job)
            except OrchError as error:
                logger.warning("supervisor.waits", extra={"run": run.id, "why": str(error)})
            except Exception:  # a part of the supervisor loop
                logger.exception("supervisor.waits", extra={"run": run.id, "job": run.job})
            else:
                for word in member.inbox.unheard():
                    again.tell(word)
                return again


async def _cancelled(tasks: list["asyncio.Task[Ending | None]"]) -> None:
    """End tasks; a group of Python 3.11 that fails just then swallows a cancellation."""
    while left := [task for task in tasks if not task.done()]:
        for task in left:
            task.cancel()
        await asyncio.wait(left, timeout=CANCELLED_WITHIN_S)
    await asyncio.gather(*tasks, return_exceptions=True)
