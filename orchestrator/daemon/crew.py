"""One supervisor for each run that lives: started, resumed after a restart, shown on the board.

It owns the supervisors' tasks; display.py shows what they know. It must not decide for a run.
"""

import asyncio
import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from orchestrator.acting import Stages
from orchestrator.clock import Clock, second_of_day
from orchestrator.core.decide.decision import Policy, RunView
from orchestrator.core.decide.inputs import (
    Accepted,
    PolicyChanged,
    StopAsked,
)
from orchestrator.core.decide.lifecycle import decide
from orchestrator.core.decide.quiet import quiet_for_s
from orchestrator.core.detect.proving import read_rule
from orchestrator.core.detect.signatures import Signature
from orchestrator.core.errors import NotDriven, OrchError, UsageError
from orchestrator.core.model import (
    AlertsSpec,
    Inventory,
    Job,
    LinkState,
    Run,
    RunState,
)
from orchestrator.daemon.adopted import jobs_of
from orchestrator.daemon.board import Board
from orchestrator.daemon.display import Display
from orchestrator.daemon.environment import Environment
from orchestrator.daemon.fleet import Fleet
from orchestrator.daemon.gate import Gate
from orchestrator.daemon.heeding import Heeding
from orchestrator.daemon.simulated import JOB, simulated_rules
from orchestrator.store.store import Store
from orchestrator.supervise import Supervisor

POLICIES = "restart_policies"
"""Where it is kept what the inventory said of restarts when that was last heeded, by job."""
RESTART_AFTER_S = 5.0
LOOKS_EVERY_S = 0.2
MET_WITHIN_S = 5.0

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
        self._environment, self._inventory, self._evidence = environment, inventory, evidence
        self._drives = drives
        self._gate = Gate(clock)
        self._taking_up = asyncio.Lock()
        self._beginning: set[str] = set()
        self._members: dict[str, Supervisor] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self.display = Display(
            store=store, board=board, fleet=fleet, drives=drives, members=self._members
        )
        self.heeding = Heeding(
            store=store,
            clock=clock,
            display=self.display,
            members=self._members,
            inventory=inventory,
            policy=self._policy,
        )

    async def resume(self) -> None:
        """Show the newest runs, and take up every one that is not finished."""
        await self.display.refresh()
        await self.take_up()
        await self._follow_edits()

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
            # Asked for at once: run by run, those that were begun before are in the way.
            for view in await self._store.views(run.id for run in left):
                await self._take_up(view, jobs[view.run.id])

    @contextmanager
    def beginning(self, *uids: str) -> Iterator[None]:
        """Runs that are being stored here: pending without a supervisor, and not forsaken."""
        self._beginning.update(uids)
        try:
            yield
        finally:
            self._beginning.difference_update(uids)

    async def _take_up(self, view: RunView, job: Job | None) -> None:
        run = view.run
        self._store.logs.claim(run.id, run.uid)
        if job is None:
            logger.error("run.jobless", extra={"run": run.id, "job": run.job})
        elif run.state is RunState.PENDING:
            await self._forsake(run, job)
        else:
            self._start(Supervisor(view, job, self._stages(run, job)))

    async def follow_policies(self) -> None:
        """What the inventory says now of restarts counts for runs that live, also in a back-off."""
        runs = [member.view.run for member in self._members.values()]
        for ident, job in (await jobs_of(self._store, runs, self._inventory())).items():
            member = self._members.get(ident)
            if member is None or job is None or job.restart == member.job.restart:
                continue
            member.job = replace(member.job, restart=job.restart)
        await self._follow_edits()

    async def _follow_edits(self) -> None:
        """What was edited while no daemon was there counts as well; keep what counts now."""
        now = {name: asdict(job.restart) for name, job in self._inventory().jobs.items()}
        now = json.loads(json.dumps(now))
        before = await self._store.values.get(POLICIES)
        if before == now:
            return
        await self._store.values.set(POLICIES, now)
        for member in self._members.values():
            job = member.view.run.job
            if before is not None and before.get(job) != now.get(job):
                member.tell(PolicyChanged())

    async def let_go(self) -> None:
        """Leave the runs of hosts that another daemon drives to that daemon."""
        runs = {run: member.view.run for run, member in self._members.items()}
        gone = [ident for ident, run in runs.items() if not self._drives(run.host)]
        for ident in gone:
            self._tasks[ident].cancel()
        await asyncio.gather(*(self._tasks[ident] for ident in gone), return_exceptions=True)
        for ident in gone:
            del self._members[ident], self._tasks[ident]

    async def _unfinished(self) -> tuple[Run, ...]:
        """Runs that live, and those whose last actions a daemon did not see the end of."""
        live = await self._store.runs.list(live=True)
        known = {run.id for run in live}
        left = {action.run for action in await self._store.actions.pending()} - known
        return (*live, *[await self._store.runs.get(run) for run in sorted(left)])

    async def _forsake(self, run: Run, job: Job) -> None:
        """A daemon died before its first decision: whoever asked for it was told of an error."""
        view = await self._store.view(run.id)
        decision = decide(view, StopAsked(), await self._policy(job), self._clock.now())
        await self._store.apply(decision)
        await self.display.show(run.id)

    async def begin(self, run: Run, job: Job) -> None:
        """Store a new run's first decision, its launch, and give it a supervisor."""
        self._store.logs.claim(run.id, run.uid)
        view = await self._store.view(run.id)
        decision = decide(view, Accepted(), await self._policy(job), self._clock.now())
        await self._store.apply(decision)
        view = await self._store.view(run.id)
        self._start(Supervisor(view, job, self._stages(run, job)))
        await self.display.show(run.id)

    async def stop(self, run: Run, grace_s: float, *, waits: bool = True) -> dict[str, Any] | None:
        """A person's word: end the run; answers who was ended and when its GPUs were free.

        None, where it does not wait for a target that is away: the stop is kept, and done then.
        """
        if run.id not in self._members:
            await self.take_up()  # the inventory may have its target again
        member = self._members.get(run.id)
        if member is None:
            raise UsageError(
                f"run {run.number} of {run.job} is not supervised: its target {run.target} is no "
                "longer in the inventory.",
                remedy=f"Put the target {run.target} back, and stop it then.",
            )
        member.tell(StopAsked(grace_s=grace_s))
        task, since = self._tasks[run.id], self._clock.monotonic()
        while not (await asyncio.wait({task}, timeout=None if waits else LOOKS_EVERY_S))[0]:
            if self._is_away(run, since) and member.view.run.state is RunState.STOPPING:
                return None
        if not member.view.run.state.ended and not self._drives(run.host):
            raise NotDriven(
                f"{run.host} went to another daemon while run {run.number} of {run.job} was being"
                " stopped.",
                target=run.host,
                remedy="`orch status` says what became of it; stop it once more.",
            )
        return dict(member.actor.ending or {"ended": [], "remaining": []})

    def _is_away(self, run: Run, since: float) -> bool:
        """Whether a target cannot be reached; one that was never seen is given time to be met."""
        link, seen_at = self._fleet.named(run.target)
        met = seen_at is not None or self._clock.monotonic() - since > MET_WITHIN_S
        return link is LinkState.UNREACHABLE and met

    async def is_ours(self, run: str) -> bool:
        """Whether this daemon drives the run's host, and so tells of its incidents."""
        return self._drives((await self._store.runs.get(run)).host)

    def sees_all(self) -> bool:
        """Whether the target of every live run can be seen now."""
        runs = (member.view.run for member in self._members.values())
        targets = {run.target for run in runs if not run.state.ended}
        return all(self._fleet.named(name)[0] is LinkState.CONNECTED for name in targets)

    async def settle(self, run: Run, within_s: float) -> None:
        """Wait, for a while, until nothing is done any more for a run that has ended."""
        task = self._tasks.get(run.id)
        if task is not None and run.state.ended:
            await asyncio.wait({task}, timeout=within_s)

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

    def _start(self, member: Supervisor) -> None:
        run = member.view.run.id
        self._members[run] = member
        self._tasks[run] = asyncio.create_task(self._supervise(member), name=f"run {run}")

    async def _supervise(self, member: Supervisor) -> None:
        run = member.view.run
        while True:
            try:
                await member.supervise()
                break
            except Exception:  # the supervisor loop is one of two places that may
                logger.exception("supervisor.failed", extra={"run": run.id, "job": run.job})
            member = self._members[run.id] = await self._again(member)
        self._members.pop(run.id, None)
        await self.display.show(run.id)
        self.display.bell(run.id).ring()

    async def _again(self, member: Supervisor) -> Supervisor:
        """One in its place, once the store answers and the target is ours to reach."""
        run = member.view.run
        while True:
            await self._clock.sleep(RESTART_AFTER_S)
            try:
                view = await self._store.view(run.id)
                return Supervisor(view, member.job, self._stages(run, member.job))
            except OrchError as error:
                logger.warning("supervisor.waits", extra={"run": run.id, "why": str(error)})

    def _stages(self, run: Run, job: Job) -> Stages:
        target = job.target_named(run.target)
        return Stages(
            store=self._store,
            link=self._fleet.link(target),
            machine=self._fleet.machine(target),
            gpus=partial(self._fleet.gpus, target.name),
            clock=self._clock,
            rules=simulated_rules(self._rules()) if job.name == JOB else self._rules(),
            policy=self._policy,
            lookup=self._environment.lookup,
            every_value=self._environment.every_value,
            changed=self.display.changed,
            resolved=self.display.resolved,
            turn=self._gate.turn,
            own_alert=job.name != JOB,
            evidence=self._evidence,
        )

    def _rules(self) -> tuple[Signature, ...]:
        return tuple(read_rule(rule).signature for rule in self._inventory().rules)

    async def _policy(self, job: Job) -> Policy:
        silences = await self._store.silences.list()
        alerts, now = self._inventory().alerts, self._clock.now()
        quiet_s = quiet_for_s(alerts.quiet_hours, second_of_day(now))
        return Policy(
            job=job,
            alerts=AlertsSpec() if job.retold else alerts,
            silences=silences,
            quiet_until=None if quiet_s is None else now + quiet_s,
        )
