"""Which hosts a daemon believes that it drives, on leases in a real PostgreSQL."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from orchestrator.clock import SystemClock
from orchestrator.core.errors import NotDriven
from orchestrator.core.inventory.build import parse_inventory
from orchestrator.daemon.leasing import ALONE_S, Leasing
from orchestrator.store import Store
from orchestrator.store.leases import Lease, Leases
from orchestrator.testing import ManualClock
from tests.lab.postgres import Postgres
from tests.store.test_leases import end_lease

pytestmark = pytest.mark.xdist_group("pg")

WITHIN_S = 30.0
INVENTORY = b"""
version: 1
hosts: {pve1: {hostname: 192.0.2.1}}
targets: {ct200: {host: pve1}}
jobs: {dflash: {target: ct200, workdir: /nowhere, command: sleep 1}}
"""


@pytest.fixture
def url(postgres: Postgres) -> str:
    """An empty database."""
    return postgres.database()


@pytest.fixture
async def pair(url: str, tmp_path: Path) -> AsyncIterator[tuple[Leasing, Leasing]]:
    """Two daemons of one fleet, which turn their leases when the test says so."""
    clock = SystemClock()
    inventory = parse_inventory(
        INVENTORY, path="i.yaml", folder="/", exists=lambda _: True, home="/root"
    )
    async with AsyncExitStack() as stack:
        found = []
        for name in ("a", "b"):
            store = await Store.open(tmp_path / name, clock, url)
            stack.push_async_callback(store.close)
            found.append(Leasing(store.leases, clock, lambda: inventory, {}))
        yield found[0], found[1]


async def test_a_host_that_was_away_between_two_looks_was_lost(
    pair: tuple[Leasing, Leasing], postgres: Postgres, url: str
) -> None:
    """A daemon that stood still while another one drove its host knows its runs no more."""
    stood_still, other = pair
    await stood_still.begin()
    assert stood_still.drives("pve1")
    end_lease(postgres, url)
    await other.begin()
    assert other.drives("pve1")
    await other.close()
    heard: asyncio.Queue[frozenset[str]] = asyncio.Queue()
    stood_still.on_change = heard.put
    going_on = asyncio.create_task(stood_still.run())
    try:
        assert await asyncio.wait_for(heard.get(), WITHIN_S) == {"pve1"}
        assert stood_still.drives("pve1")
    finally:
        going_on.cancel()
        await asyncio.gather(going_on, return_exceptions=True)


class Late(Leases):
    """Leases whose turns take as long as is said, by a clock of the test's."""

    def __init__(self, leases: Leases, clock: ManualClock) -> None:
        super().__init__(leases._worker, leases.owner)
        self._clock, self.takes_s = clock, 0.0

    async def turn(self, *args: Any) -> tuple[Lease, ...]:
        """The turn, and that time passes."""
        found = await super().turn(*args)
        await self._clock.advance(self.takes_s)
        return found


async def test_a_host_is_driven_only_while_the_database_says_so(url: str, tmp_path: Path) -> None:
    """Unheard for nearly as long as a lease lasts it is ours no more, counted from the question."""
    clock = ManualClock()
    inventory = parse_inventory(
        INVENTORY, path="i.yaml", folder="/", exists=lambda _: True, home="/root"
    )
    host = inventory.targets["ct200"].host
    store = await Store.open(tmp_path / "a", SystemClock(), url)
    assert store.leases is not None
    leases = Late(store.leases, clock)
    leasing = Leasing(leases, clock, lambda: inventory, {})
    await leasing.begin()
    assert not leasing.drives("another")
    await clock.advance(ALONE_S - 0.1)
    assert leasing.token(host) == 1
    await clock.advance(0.2)
    assert not leasing.drives("pve1")
    with pytest.raises(NotDriven):
        leasing.token(host)
    await leasing.turn()
    assert leasing.drives("pve1")
    leases.takes_s = ALONE_S + 0.1
    await leasing.turn()
    assert not leasing.drives("pve1")
    await store.close()
