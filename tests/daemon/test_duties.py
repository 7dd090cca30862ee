"""What the daemon does of an inventory that was edited, also where the store fails meanwhile."""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

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
    """A crew whose store does not answer at first, and one that asks again and again."""

    asked: int = 0
    again: bool = False
    followed: asyncio.Event = field(default_factory=asyncio.Event)

    async def take_up(self) -> None:
        """As a crew does."""
        self.asked += 1
        if self.asked == 1 and not self.again:
            raise StoreError("The disk is full.")

    def asks_again(self) -> bool:
        """As a crew does."""
        return self.again

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


@pytest.mark.parametrize(
    ("crew", "followed", "asked"),
    [
        (FailingOnce(), "another text", 2),
        (FailingOnce(again=True), Source().inventory().digest, 1),
    ],
    ids=["an edit", "an address to be asked again"],
)
async def test_who_is_to_be_looked_for_anew_is(
    store: Store, tmp_path: Path, crew: FailingOnce, followed: str, asked: int
) -> None:
    """By the former text runs would be watched until the next edit, or for ever."""
    duties = Duties(
        clock=HastyClock(),
        file=cast("InventoryFile", Edited()),
        store=store,
        outbox=cast("Outbox", SimpleNamespace(follow=lambda _: None)),
        rack=cast("Rack", SimpleNamespace(sinks=lambda _: ())),
        crew=cast("Crew", crew),
        environment=Environment({}, tmp_path / "env", HastyClock().monotonic),
        evidence=tmp_path,
        followed=followed,
    )
    following = asyncio.create_task(duties._follow())
    async with asyncio.timeout(WITHIN_S):
        await crew.followed.wait()
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    assert crew.asked >= asked
