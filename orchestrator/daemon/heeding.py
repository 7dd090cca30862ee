"""What is said of an incident: a person has taken note of it, or it is time to remind of it.

Owns who decides on that: the supervisor of its run, or nobody but the store once the run is over.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from orchestrator.clock import Clock
from orchestrator.core.decide.decision import Policy, after
from orchestrator.core.decide.inputs import AckAsked, ReminderDue
from orchestrator.core.decide.lifecycle import decide
from orchestrator.core.errors import UsageError
from orchestrator.core.model import Incident, IncidentState, Inventory, Job
from orchestrator.daemon.adopted import job_of
from orchestrator.daemon.display import Display
from orchestrator.store.store import Store
from orchestrator.supervise import Supervisor

DECIDED_WITHIN_S = 10.0

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Heeding:
    """Takes the word to whoever decides on it."""

    store: Store
    clock: Clock
    display: Display
    members: Mapping[str, Supervisor]
    inventory: Callable[[], Inventory]
    policy: Callable[[Job], Awaitable[Policy]]

    async def acknowledge(self, incident: Incident) -> None:
        """A person has taken note of an incident."""
        member = self.members.get(incident.run)
        if member is not None and not member.view.run.state.ended:
            member.tell(AckAsked(incident=incident.id))
            await self._until_known(member, incident.id)
            return
        if not await self._decide_for_ended(incident.run, AckAsked(incident=incident.id)):
            raise UsageError(f"The job of {incident.run} is no longer in the inventory.")

    async def remind(self, incident: Incident, due_s: int) -> None:
        """An incident is open still: tell whoever was told of it."""
        event = ReminderDue(incident=incident.id, due_s=due_s)
        member = self.members.get(incident.run)
        if member is not None and not member.view.run.state.ended:
            member.tell(event)
        else:
            await self._decide_for_ended(incident.run, event)

    async def _decide_for_ended(self, run: str, event: AckAsked | ReminderDue) -> bool:
        """Decide for a run that has ended; False where its job is not known."""
        view = await self.store.view(run)
        job = await job_of(self.store, view.run, self.inventory())
        if job is None:
            return False
        decision = decide(view, event, await self.policy(job), self.clock.now())
        await self.store.apply(decision)
        if (member := self.members.get(run)) is not None:
            # It ends what is left of its run, and decides no more: what it knows is shown.
            member.view = after(member.view, decision)
        await self.display.show(run)
        return True

    async def _until_known(self, member: Supervisor, ident: str) -> None:
        """Until the supervisor has decided on an acknowledgement, and its store has it."""
        run = member.view.run.id
        try:
            async with asyncio.timeout(DECIDED_WITHIN_S):
                while any(
                    one.id == ident and one.state is IncidentState.OPEN
                    for one in member.view.incidents
                ):
                    await self.display.bell(run).wait()
        except TimeoutError:
            logger.warning("acknowledgement.waits", extra={"run": run, "incident": ident})
