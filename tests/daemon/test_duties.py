"""What the daemon does of an inventory that was edited, also where the store fails meanwhile."""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import cast

from orchestrator.core.errors import StoreError
from orchestrator.daemon.crew import Crew
from orchestrator.daemon.duties import Duties
from orchestrator.daemon.environment import Environment
from orchestrator.daemon.inventory_file import InventoryFile
from orchestrator.sinks.make import Rack
from orchestrator.sinks.outbox import Outbox
from orchestrator.store import Store
from tests.daemon.crews import WITHIN_S, HastyClock, Source


@dataclass
class FailingOnce:
    """A crew whose store does not answer at first."""

    asked: int = 0
    looks: int = 0
    followed: asyncio.Event = field(default_factory=asyncio.Event)

    async def take_up(self) -> None:
        """As a crew does."""
        self.asked += 1
        if self.asked == 1:
            raise StoreError("The disk is full.")

    async def look_again(self) -> None:
        """As a crew does; it found something the third time, and could not follow it."""
        self.looks += 1
        if self.looks == 3:
            self.followed.clear()
            raise StoreError("The disk is full.")

    async def follow_inventory(self) -> None:
        """As a crew does."""
        self.followed.set()


@dataclass
class Edited:
    """An inventory file that was edited."""

    async def refresh(self) -> None:
        """Nothing more is edited."""

    def current(self) -> object:
        """What it says now."""
        return Source().inventory()


async def test_an_edit_is_not_lost_to_a_store_that_fails(store: Store, tmp_path: Path) -> None:
    """Runs would be watched by the former text until the next edit, or for ever."""
    crew = FailingOnce()
    duties = Duties(
        clock=HastyClock(),
        file=cast("InventoryFile", Edited()),
        store=store,
        outbox=cast("Outbox", SimpleNamespace(follow=lambda _: None)),
        rack=cast("Rack", SimpleNamespace(sinks=lambda _: ())),
        crew=cast("Crew", crew),
        environment=Environment({}, tmp_path / "env", HastyClock().monotonic),
        evidence=tmp_path,
        followed="another text",
    )
    following = asyncio.create_task(duties._follow())
    async with asyncio.timeout(WITHIN_S):
        await crew.followed.wait()
        assert crew.asked == 2
        while crew.looks < 3 or not crew.followed.is_set():
            await asyncio.sleep(0.01)
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    assert crew.asked == 3
