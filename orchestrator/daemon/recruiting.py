"""Makes the supervisor of a run: its job where the run is, and the stages that it works with.

Owns where a run was looked for in vain. Must not: start a supervisor, crew.py does.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from orchestrator.acting import Stages
from orchestrator.clock import Clock
from orchestrator.core.decide.decision import Policy, RunView
from orchestrator.core.decide.inputs import PolicyChanged
from orchestrator.core.decide.restart import waits_by_another
from orchestrator.core.detect.proving import read_rule
from orchestrator.core.model import Inventory, Job, LinkState, Run, Target
from orchestrator.daemon.arriving import Arrival
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
        refuted, until = self._refuted.get(run.id, (None, 0.0))
        if run.whereabouts is not None and target == refuted:
            stay = stays(run.whereabouts, run.target)
            is_away = self.fleet.named(stay.name)[0] is LinkState.UNREACHABLE
            answers = self.fleet.named(target.name)[0] is LinkState.CONNECTED
            asks = is_away and answers and self.clock.monotonic() >= until
            target = target if asks else stay
        return replace(job, targets=(target,))

    def is_refuted(self, member: Supervisor) -> bool:
        """Whether the run of this supervisor is not where it was looked for."""
        refuted, _ = self._refuted.get(member.view.run.id, (None, 0.0))
        return member.job.target == refuted

    def asks_again(self) -> bool:
        """Whether some run may be looked for once more where it was not."""
        now = self.clock.monotonic()
        return any(now >= until for _, until in self._refuted.values())

    def forget(self, run: str) -> None:
        """The run is over, or where it was looked for."""
        self._refuted.pop(run, None)

    async def policy(self, job: Job) -> Policy:
        """What decisions about a job go by now."""
        return await policy_of(job, self.inventory().alerts, self.store, self.clock)

    def _stages(self, run: Run, job: Job) -> Stages:
        target = job.target_named(run.target)
        link = self.fleet.link(target)

        def told(is_there: bool) -> None:
            self._refuted[run.id] = target, self.clock.monotonic() + ASKED_AGAIN_AFTER_S
            if is_there:
                self.forget(run.id)

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
