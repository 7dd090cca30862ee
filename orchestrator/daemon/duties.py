"""What the daemon does by the clock: beat, follow the inventory's sinks, remind, forget the old.

It owns when these are due. It must not know how any of them is done.
"""

import asyncio
import logging
from dataclasses import dataclass
from pathlib import Path

from orchestrator.clock import Clock, second_of_day
from orchestrator.core.decide.quiet import quiet_for_s, reminders
from orchestrator.core.errors import NoSuchRun, StoreError
from orchestrator.daemon.crew import Crew
from orchestrator.daemon.environment import Environment, wanted_names
from orchestrator.daemon.forgetting import forget_old
from orchestrator.daemon.inventory_file import InventoryFile
from orchestrator.sinks.heartbeat import Heartbeat
from orchestrator.sinks.make import Rack
from orchestrator.sinks.outbox import Outbox
from orchestrator.store.store import Store

FOLLOW_EVERY_S = 5.0
REMIND_LOOK_S = 5.0
PRUNE_FIRST_S = 120.0
"""After a start, when the runs have been taken up again."""
PRUNE_EVERY_S = 86_400.0

logger = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class Duties:
    """All that is done again and again without being asked."""

    clock: Clock
    file: InventoryFile
    store: Store
    outbox: Outbox
    rack: Rack
    crew: Crew
    environment: Environment
    evidence: Path
    followed: str
    """Digest of the inventory that the runs are watched by."""

    async def run(self) -> None:
        """For ever."""
        heart = Heartbeat(
            lambda: self.file.current().alerts.heartbeat_url_env,
            self.clock,
            self.environment.lookup,
            self.crew.sees_all,
        )
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(heart.run(), name="heartbeat")
            tasks.create_task(self._follow(), name="follow inventory")
            tasks.create_task(self._prune(), name="prune")
            tasks.create_task(self._remind(), name="remind")

    async def _follow(self) -> None:
        while True:
            await self.file.refresh()
            inventory = self.file.current()
            await self.environment.learn(wanted_names(inventory))
            self.outbox.follow(self.rack.sinks(inventory.alerts.sinks))
            if inventory.digest != self.followed and await self._take_up():
                self.followed = inventory.digest
            await self._look_again()
            await self.clock.rest(FOLLOW_EVERY_S)

    async def _take_up(self) -> bool:
        """A run whose target was gone, or is reached in another way, is watched again.

        False where the store failed: it is to be done once more.
        """
        try:
            await self.crew.take_up()
            await self.crew.follow_inventory()
        except StoreError as error:
            logger.warning("runs.not_taken_up", extra={"why": str(error)})
            return False
        return True

    async def _look_again(self) -> None:
        try:
            await self.crew.look_again()
        except StoreError as error:
            logger.warning("runs.not_taken_up", extra={"why": str(error)})
            self.followed = ""  # what was found is followed by the next look

    async def _remind(self) -> None:
        told: dict[str, int] = {}
        while True:
            await self.clock.rest(REMIND_LOOK_S)
            alerts, now = self.file.current().alerts, self.clock.now()
            every_s = alerts.remind_s
            quiet = quiet_for_s(alerts.quiet_hours, second_of_day(now)) is not None
            try:
                found = await self.store.incidents.list(unresolved=True) if every_s else ()
                for incident, due_s in reminders(found, every_s, now, quiet=quiet):
                    if not await self.crew.is_ours(incident.run):
                        continue
                    if told.get(incident.id) != due_s:
                        await self.crew.heeding.remind(incident, due_s)
                        told[incident.id] = due_s
            except (StoreError, NoSuchRun) as error:
                logger.warning("reminder.failed", extra={"why": str(error)})

    async def _prune(self) -> None:
        await self.clock.sleep(PRUNE_FIRST_S)
        while True:
            try:
                await self.prune_once()
            except StoreError as error:
                logger.warning("prune.failed", extra={"why": str(error)})
            await self.clock.sleep(PRUNE_EVERY_S)

    async def prune_once(self) -> None:
        """Forget what is older or larger than is to be kept."""
        pruned = await forget_old(self.store, self.file.current(), self.evidence)
        logger.info(
            "pruned",
            extra={"logs": len(pruned.logs), "bytes": pruned.log_bytes, "rows": pruned.rows},
        )
