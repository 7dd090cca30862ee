"""Requests between daemons on a real PostgreSQL: done once, by the host's driver, and answered."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.clock import SystemClock
from orchestrator.core.errors import StoreError
from orchestrator.store import Store
from orchestrator.store.requests import Request, Requests
from tests.lab.postgres import Postgres
from tests.store.test_leases import end_lease, turn

pytestmark = pytest.mark.xdist_group("pg")

QUESTION = Request(
    id="q1", host="pve1", method="POST", path="/v1/runs/dflash-1/stop", body=b"{\0}", by="ann"
)


@pytest.fixture
def url(postgres: Postgres) -> str:
    """An empty database."""
    return postgres.database()


@pytest.fixture
async def stores(url: str, tmp_path: Path) -> AsyncIterator[list[Store]]:
    """Three daemons' stores; the first one drives pve1."""
    async with AsyncExitStack() as stack:
        opened = []
        for name in ("a", "b", "c"):
            opened.append(await Store.open(tmp_path / name, SystemClock(), url))
            stack.push_async_callback(opened[-1].close)
        await turn(opened[0], "pve1")
        yield opened


def requests(store: Store) -> Requests:
    """What a shared store has."""
    assert store.requests is not None
    return store.requests


async def test_who_drives_the_host_takes_it_once(stores: list[Store]) -> None:
    """Neither a daemon without the lease nor a second look gets it, however often it is asked."""
    driver, asker, other = map(requests, stores)
    await asker.ask(QUESTION)
    await asker.ask(QUESTION)
    assert await other.take(["pve1"], ()) == ()
    assert await driver.take(["pve1", "pve2"], ()) == (QUESTION,)
    assert await driver.take(["pve1", "pve2"], ["q1"]) == ()
    await driver.finish("q1")
    await asker.ask(QUESTION)
    assert await driver.take(["pve1"], ()) == ()


async def test_the_answer_comes_part_by_part(stores: list[Store]) -> None:
    """In order, each once also where it is written twice, and what was read is forgotten."""
    driver, asker, _ = map(requests, stores)
    await asker.ask(QUESTION)
    await driver.take(["pve1"], ())
    assert (await asker.read("q1", 0)).taken
    await driver.put("q1", 0, b"head")
    assert (await driver.put("q1", 1, b"\0\xff")).unread == 2
    await driver.put("q1", 1, b"again")
    first = await asker.read("q1", 0)
    assert (first.parts, first.over) == ((b"head", b"\0\xff"), False)
    await driver.put("q1", 2, b"end")
    await driver.finish("q1")
    last = await asker.read("q1", 2)
    assert (last.parts, last.over, last.broken) == ((b"end",), True, False)
    assert (await driver.room("q1")).unread == 1


async def test_a_successor_gets_what_nobody_took(
    stores: list[Store], postgres: Postgres, url: str
) -> None:
    """A request outlives the daemon that it was meant for; one that it had taken is broken off."""
    driver, asker, other = map(requests, stores)
    await asker.ask(QUESTION)
    await driver.take(["pve1"], ())
    await asker.ask(replace(QUESTION, id="q2"))
    end_lease(postgres, url)
    await turn(stores[2], "pve1")
    assert (await asker.read("q1", 0)).broken
    assert [one.id for one in await other.take(["pve1"], ())] == ["q2"]
    assert await driver.take(["pve1"], ()) == ()
    assert not (await asker.read("q2", 0)).broken


async def test_an_answer_that_breaks_off_is_no_whole_one(stores: list[Store]) -> None:
    """What came of it is had, and then it is said that more should have come."""
    driver, asker, _ = map(requests, stores)
    await asker.ask(QUESTION)
    await driver.take(["pve1"], ())
    await driver.put("q1", 0, b"head")
    await driver.break_off("q1")
    told = await asker.read("q1", 0)
    assert (told.parts, told.over, told.broken) == ((b"head",), False, True)


async def test_nobody_does_what_nobody_waits_for(
    stores: list[Store], postgres: Postgres, url: str
) -> None:
    """Whoever leaves, or is not heard of for a while, gets nothing done later; old rows go."""
    driver, asker, _ = map(requests, stores)
    await asker.ask(QUESTION)
    await asker.leave("q1")
    assert await driver.take(["pve1"], ()) == ()
    assert not (await driver.room("q1")).wanted
    postgres.query(url, "UPDATE requests SET wanted_until = wanted_until - 4000")
    await driver.take(["pve1"], ())
    assert postgres.query(url, "SELECT count(*) FROM requests") == ["0"]


async def test_what_was_taken_unheard_is_had_again(stores: list[Store]) -> None:
    """A call whose answer was lost took it: the same daemon gets it, unless it has begun it."""
    driver, asker, other = map(requests, stores)
    await asker.ask(QUESTION)
    await driver.take(["pve1"], ())
    assert await driver.take(["pve1"], ["q1"]) == ()
    assert await other.take(["pve1"], ()) == ()
    assert await driver.take(["pve1"], ()) == (QUESTION,)


async def test_an_end_is_the_end(stores: list[Store]) -> None:
    """An answer that is whole is not broken off later; one that is gone is nothing to wait for."""
    driver, asker, _ = map(requests, stores)
    await asker.ask(QUESTION)
    await driver.take(["pve1"], ())
    await driver.finish("q1")
    await driver.break_off("q1")
    assert (await asker.read("q1", 0)).over
    assert (await asker.read("q2", 0)).broken


async def test_a_lease_that_has_just_ended_breaks_nothing_off(
    stores: list[Store], postgres: Postgres, url: str
) -> None:
    """After the database was away its driver renews it in a moment, and answers on."""
    driver, asker, _ = map(requests, stores)
    await asker.ask(QUESTION)
    await driver.take(["pve1"], ())
    postgres.query(url, "UPDATE leases SET expires_at = expires_at - 15")
    assert not (await asker.read("q1", 0)).broken
    postgres.query(url, "UPDATE leases SET expires_at = expires_at - 15")
    assert (await asker.read("q1", 0)).broken


async def test_nothing_is_begun_under_a_lease_that_has_ended(
    stores: list[Store], postgres: Postgres, url: str
) -> None:
    """A daemon that slept through its lease's end takes nothing, until the host is its own anew."""
    driver, asker, _ = map(requests, stores)
    await asker.ask(QUESTION)
    end_lease(postgres, url)
    assert await driver.take(["pve1"], ()) == ()
    await turn(stores[0], "pve1")
    assert await driver.take(["pve1"], ()) == (QUESTION,)


async def test_an_asker_that_reads_nothing_can_say_that_it_waits(
    stores: list[Store], postgres: Postgres, url: str
) -> None:
    """Nobody gives up on one that is busy with the part before."""
    driver, asker, _ = map(requests, stores)
    await asker.ask(QUESTION)
    await driver.take(["pve1"], ())
    postgres.query(url, "UPDATE requests SET wanted_until = 0")
    assert not (await driver.room("q1")).wanted
    await asker.want("q1")
    assert (await driver.room("q1")).wanted


async def test_news_is_pushed(stores: list[Store], postgres: Postgres, url: str) -> None:
    """The driver hears of a request at once, also after its connection was cut by the server."""
    driver, asker, _ = map(requests, stores)
    listening = asyncio.create_task(driver.pushed.run())
    try:
        for number in range(2):
            await asyncio.wait_for(driver.pushed.bell().wait(), 30)  # it listens now
            bell = driver.pushed.bell()
            await asker.ask(replace(QUESTION, id=f"p{number}"))
            await asyncio.wait_for(bell.wait(), 30)
            postgres.query(
                url,
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'",
            )
    finally:
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)


async def test_a_server_that_hangs_is_said(stores: list[Store], postgres: Postgres) -> None:
    """Nobody waits for ever for a database that stands still; what comes back serves on."""
    postgres.pause()
    try:
        with pytest.raises(StoreError, match="The database has not answered"):
            await stores[0].runs.list()
    finally:
        postgres.go_on()
    assert await stores[0].runs.list() == ()
