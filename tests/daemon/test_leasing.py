"""Which hosts a daemon believes that it drives, on leases in a real PostgreSQL."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from orchestrator.clock import SystemClock
from orchestrator.core.decide.inputs import StopAsked
from orchestrator.core.errors import NotDriven, StoreError
from orchestrator.core.inventory.build import parse_inventory
from orchestrator.core.model import Inventory
from orchestrator.daemon.launching import RunRequest, _draft
from orchestrator.daemon.leasing import ALONE_S, Leasing
from orchestrator.daemon.parts import Parts
from orchestrator.daemon.stopping import keep, kept
from orchestrator.store import Store
from orchestrator.store.leases import Lease, Leases
from orchestrator.testing import ManualClock
from tests.daemon.crews import HastyClock, until
from tests.lab.postgres import Postgres
from tests.store.nouns import draft
from tests.store.test_leases import end_lease

pytestmark = pytest.mark.xdist_group("pg")

WITHIN_S = 30.0
INVENTORY = b"""
version: 1
hosts: {pve1: {hostname: 192.0.2.1}}
targets: {ct200: {host: pve1}}
jobs: {dflash: {target: ct200, workdir: /nowhere, command: sleep 1}}
"""
OTHERS = INVENTORY.replace(b"pve1", b"pve2")
"""The inventory without the host."""


def inventory_of(text: bytes) -> Inventory:
    """As a daemon reads it."""
    return parse_inventory(text, path="i.yaml", folder="/", exists=lambda _: True, home="/root")


@pytest.fixture
def url(postgres: Postgres) -> str:
    """An empty database."""
    return postgres.database()


@pytest.fixture
async def pair(url: str, tmp_path: Path) -> AsyncIterator[tuple[Leasing, Leasing]]:
    """Two daemons of one fleet, which turn their leases when the test says so."""
    clock = SystemClock()
    inventory = inventory_of(INVENTORY)
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
        await ended(going_on)


async def ended(task: "asyncio.Task[None]") -> None:
    """End what goes on for ever."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


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
    inventory = inventory_of(INVENTORY)
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


async def test_a_host_that_no_inventory_has_is_left_to_the_daemon_that_had_it(
    url: str, tmp_path: Path
) -> None:
    """Another inventory's daemon would look for the run by its own job, and launch that there."""
    with_it, without = inventory_of(INVENTORY), inventory_of(OTHERS)
    looks = 0

    async def standing() -> set[str]:
        nonlocal looks
        looks += 1
        return {"pve1"}

    async def has_looked() -> bool:
        return looks > 3

    async def drives(leasing: Leasing) -> bool:
        return leasing.drives("pve1")

    async with AsyncExitStack() as stack:

        async def daemon(name: str, inventory: Inventory, team: str) -> Leasing:
            store = await Store.open(tmp_path / name, SystemClock(), url)
            stack.push_async_callback(store.close)
            return Leasing(store.leases, HastyClock(), lambda: inventory, {"inventory": team})

        before = await daemon("a", with_it, "ours.yaml")
        await before.begin()
        assert before.drives("pve1")
        await before.close()
        strangers = await daemon("b", without, "theirs.yaml")
        after = await daemon("c", without, "ours.yaml")
        for leasing in (strangers, after):
            leasing.standing = standing
            await leasing.begin()
            looks, going_on = 0, asyncio.create_task(leasing.run())
            stack.push_async_callback(ended, going_on)
            await until(has_looked)
            assert not strangers.drives("pve1")
        await until(lambda: drives(after))
        assert after.was_ours("pve1")
        assert not strangers.was_ours("pve1")
        assert not strangers.was_ours("pve9")


async def test_a_host_that_an_older_orch_drove_or_another_gave_is_ours(
    url: str, tmp_path: Path
) -> None:
    """The former said less of itself, and who is given a host finds the giver's words there."""
    inventory = inventory_of(INVENTORY)
    ours = {"inventory": "ours.yaml"}
    async with AsyncExitStack() as stack:
        store = await Store.open(tmp_path / "a", SystemClock(), url)
        stack.push_async_callback(store.close)
        leasing = Leasing(store.leases, HastyClock(), lambda: inventory, ours)
        said = {"machine": socket.gethostname(), "pid": 1, **ours}
        lease = Lease(host="pve1", owner="another", token=1, driver=said, targets=(), left_s=-1.0)
        leasing.all = (lease,)
        assert leasing.was_ours("pve1")
        leasing.all = (replace(lease, driver={**said, "machine": "elsewhere"}),)
        assert not leasing.was_ours("pve1")
        leasing.all = (replace(leasing.all[0], owner=leasing.own),)
        assert leasing.was_ours("pve1")


async def test_a_stop_is_kept_by_who_drives_the_host_alone(url: str, tmp_path: Path) -> None:
    """Whoever took the host over has looked already for what was kept, and would not see it."""
    run, word = replace(draft(), id="dflash-1", host="pve1"), StopAsked(grace_s=1.0)
    inventory = inventory_of(INVENTORY)
    async with AsyncExitStack() as stack:
        store = await Store.open(tmp_path / "a", SystemClock(), url)
        stack.push_async_callback(store.close)
        with pytest.raises(NotDriven):
            await keep(store, run, word)
        assert await kept(store, [run]) == {}
        await Leasing(store.leases, HastyClock(), lambda: inventory, {}).begin()
        await keep(store, run, word)
        assert await kept(store, [run]) == {"dflash-1": word}


@pytest.mark.parametrize("error", [StoreError, ValueError])
async def test_leases_are_renewed_while_the_runs_cannot_be_read(
    url: str, tmp_path: Path, error: type[Exception]
) -> None:
    """A row that is damaged or hung is no reason to lose every host: the last answer counts."""
    clock, failures = HastyClock(), 0

    async def standing() -> set[str]:
        nonlocal failures
        if not leasing.drives("pve1"):
            return {"pve1"}
        failures += 1
        raise error("as nobody thought of")

    async def drives() -> bool:
        return leasing.drives("pve1")

    async def is_renewed() -> bool:
        return failures > 3 and leasing._confirmed_at > failing_since

    async with AsyncExitStack() as stack:
        store = await Store.open(tmp_path / "a", SystemClock(), url)
        stack.push_async_callback(store.close)
        before = Leasing(store.leases, clock, lambda: inventory_of(INVENTORY), {})
        await before.begin()
        await before.close()
        leasing = Leasing(store.leases, clock, lambda: inventory_of(OTHERS), {})
        leasing.standing = standing
        await leasing.begin()
        stack.push_async_callback(ended, asyncio.create_task(leasing.run()))
        await until(drives)
        failing_since = clock.monotonic()
        await until(is_renewed)
        assert leasing.drives("pve1")
        assert leasing.drives("pve2")


async def test_a_run_is_of_the_host_that_it_is_launched_on(url: str, tmp_path: Path) -> None:
    """Its job was read before a deploy of minutes, in which its target was led elsewhere."""
    store = await Store.open(tmp_path / "a", SystemClock(), url)
    leasing = Leasing(store.leases, SystemClock(), lambda: inventory_of(INVENTORY), {})
    await leasing.begin()
    leasing._inventory = lambda: inventory_of(OTHERS)
    parts = cast("Parts", SimpleNamespace(clock=SystemClock(), leasing=leasing))
    job = inventory_of(INVENTORY).jobs["dflash"]
    run = await store.runs.create(_draft(parts, job, None, RunRequest(env={})))
    assert run.host == "pve1"
    assert run.whereabouts == job.target
    await store.close()
