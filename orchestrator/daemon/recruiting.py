"""Makes the supervisor of a run: its job where the run is, and the stages that it works with.

Owns where a run was looked for in vain, and when it is asked there again. Must not: start a
supervisor, crew.py does.
"""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from orchestrator.acting import Stages
from orchestrator.clock import Clock
from orchestrator.core.decide.decision import Policy, RunView
from orchestrator.core.decide.inputs import PolicyChanged
from orchestrator.core.decide.restart import waits_by_another
from orchestrator.core.detect.proving import read_rule
from orchestrator.core.errors import TargetError
from orchestrator.core.model import Inventory, Job, LinkState, Run, Target
from orchestrator.daemon.arriving import Arrival, has_run
from orchestrator.daemon.display import Display
from orchestrator.daemon.environment import Environment
from orchestrator.daemon.fleet import Fleet
from orchestrator.daemon.gate import Gate
from orchestrator.daemon.placed import placed, stays
from orchestrator.daemon.policies import policy_of
from orchestrator.daemon.simulated import JOB, simulated_rules
from orchestrator.store.store import Store
from orchestrator.supervise import Supervisor

ASKED_AGAIN_AFTER_S = 120.0
"""Where the run's old address is away, its edited one is asked once more whether it has the run."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recruiting:
    """What each supervisor of this daemon is made with."""

    store: Store
    fleet: Fleet
    clock: Clock
    environment: Environment
    inventory: Callable[[], Inventory]
    display: Display
    evidence: Path
    gate: Gate
    _refuted: dict[str, tuple[Target, float]] = field(default_factory=dict)
    """Where a run was looked for, at an address that was edited, and is not; until when that holds.

    A machine that is met at its new address may not have its folders yet, or have them back later.
    """

    def member(self, view: RunView, job: Job) -> Supervisor:
        """A supervisor; one of a run whose policy was edited while nobody looked knows of it."""
        run, job = view.run, self.placed(view.run, job)
        if job.target.name != run.target:
            logger.warning("run.stays", extra={"run": run.id, "at": job.target.name})
        member = Supervisor(view, job, self._stages(run, job))
        if waits_by_another(run, job.restart):
            member.tell(PolicyChanged())
        return member

    def placed(self, run: Run, job: Job) -> Job:
        """The job where the run is, reached as the inventory says now."""
        target = placed(job.target_named(run.target), run.target, self.inventory())
        if run.whereabouts is not None and target == self._refuted_at(run.id):
            target = stays(run.whereabouts, run.target)
        return replace(job, targets=(target,))

    def is_refuted(self, member: Supervisor) -> bool:
        """Whether the run of this supervisor is not where it was looked for."""
        return member.job.target == self._refuted_at(member.view.run.id)

    def _refuted_at(self, run: str) -> Target | None:
        return self._refuted[run][0] if run in self._refuted else None

    async def look_again(self, runs: Iterable[Run]) -> bool:
        """Whether one of the runs is by now where it was not; those whose old place is away.

        They are watched at their old place meanwhile: who cannot see a run is to say so.
        """
        found = False
        for run in runs:
            if run.whereabouts is None or not self._may_be_there(run, run.whereabouts):
                continue
            target, _ = self._refuted[run.id]
            try:
                is_there = await has_run(self.fleet.link(target), run)
            except TargetError as error:
                logger.info("run.sought", extra={"run": run.id, "why": str(error)})
                is_there = False
            self._told(run.id, target, is_there)
            found = found or is_there
        return found

    def _may_be_there(self, run: Run, was: Target) -> bool:
        target, until = self._refuted.get(run.id, (None, 0.0))
        if target is None or self.clock.monotonic() < until:
            return False
        old, _ = self.fleet.named(stays(was, run.target).name)
        new, _ = self.fleet.named(target.name)
        return old is LinkState.UNREACHABLE and new is LinkState.CONNECTED

    def _told(self, run: str, target: Target, is_there: bool) -> None:
        if is_there:
            self.forget(run)
        else:
            self._refuted[run] = target, self.clock.monotonic() + ASKED_AGAIN_AFTER_S

    def forget(self, run: str) -> None:
        """The run is over, or where it was looked for."""
        self._refuted.pop(run, None)

    async def policy(self, job: Job) -> Policy:
        """What decisions about a job go by now."""
        return await policy_of(job, self.inventory().alerts, self.store, self.clock)

    def _stages(self, run: Run, job: Job) -> Stages:
        target = job.target_named(run.target)
        link = self.fleet.link(target)
        told = partial(self._told, run.id, target)
        arrival = Arrival(self.store, link, self.clock, run, target, told)
        rules = tuple(read_rule(rule).signature for rule in self.inventory().rules)
        return Stages(
            store=self.store,
            link=link,
            machine=self.fleet.machine(target),
            gpus=partial(self.fleet.gpus, target.name),
            clock=self.clock,
            rules=simulated_rules(rules) if job.name == JOB else rules,
            policy=self.policy,
            lookup=self.environment.lookup,
            every_value=self.environment.every_value,
            changed=self.display.changed,
            resolved=self.display.resolved,
            turn=self.gate.turn,
            own_alert=job.name != JOB,
            evidence=self.evidence,
            seek=arrival.seek,
            there=arrival.there,
        )
