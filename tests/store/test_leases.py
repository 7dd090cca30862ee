"""Leases on a real PostgreSQL: one driver a host, a growing token, and no decision without one."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, create_engine, text

from orchestrator.clock import SystemClock
from orchestrator.core.decide.decision import Decision
from orchestrator.core.errors import NotDriven, StoreError
from orchestrator.store import Store, schema
from orchestrator.store.leases import LEASE_S, Lease, Leases
from orchestrator.store.tables import metadata
from tests.lab.postgres import Postgres
from tests.store.nouns import draft, incident, outgoing

pytestmark = pytest.mark.xdist_group("pg")

WITHIN_S = 30.0


@pytest.fixture
def url(postgres: Postgres) -> str:
    """An empty database."""
    return postgres.database()


@pytest.fixture
async def daemons(url: str, tmp_path: Path) -> AsyncIterator[tuple[Store, Store]]:
    """Two daemons' stores in one database."""
    async with AsyncExitStack() as stack:
        opened = []
        for name in ("a", "b"):
            opened.append(await Store.open(tmp_path / name, SystemClock(), url))
            stack.push_async_callback(opened[-1].close)
        yield opened[0], opened[1]


def leases(store: Store) -> Leases:
    """A store's leases, which a shared one has."""
    assert store.leases is not None
    return store.leases


async def turn(store: Store, *hosts: str) -> tuple[Lease, ...]:
    """One renewal that wants these hosts."""
    return await leases(store).turn(hosts, {"pid": 1}, {})


def end_lease(postgres: Postgres, url: str, host: str = "pve1") -> None:
    """As if its time had passed: its daemon is dead or hangs."""
    postgres.query(url, f"UPDATE leases SET expires_at = 0 WHERE host = '{host}'")


async def test_migrations_make_the_same_tables_there(url: str, tmp_path: Path) -> None:
    """The revisions that make SQLite's tables make PostgreSQL's, by two daemons at once too."""
    stores = await asyncio.gather(
        *(Store.open(tmp_path / name, SystemClock(), url) for name in "ab")
    )
    for store in stores:
        await store.close()
    engine = create_engine(url)
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
    engine.dispose()


async def test_a_host_has_one_driver(daemons: tuple[Store, Store]) -> None:
    """Who asks second gets what is free, and sees who has the rest."""
    a, b = daemons
    await turn(a, "pve1")
    told = await turn(b, "pve1", "pve2")
    assert (leases(a).held, leases(b).held) == ({"pve1": 1}, {"pve2": 1})
    assert [(one.host, one.owner) for one in told] == [
        ("pve1", leases(a).owner),
        ("pve2", leases(b).owner),
    ]
    assert all(0 < one.left_s <= 10 for one in told)


async def test_an_ended_lease_is_taken_with_a_larger_token(
    daemons: tuple[Store, Store], postgres: Postgres, url: str
) -> None:
    """The one that hung finds itself without the host; a lease that nobody took is just renewed."""
    a, b = daemons
    await turn(a, "pve1")
    end_lease(postgres, url)
    await turn(a, "pve1")
    assert leases(a).held == {"pve1": 1}
    end_lease(postgres, url)
    await turn(b, "pve1")
    await turn(a, "pve1")
    assert (leases(a).held, leases(b).held) == ({}, {"pve1": 2})
    await leases(b).release()
    await turn(a, "pve1")
    assert leases(a).held == {"pve1": 3}


class Ahead(SystemClock):
    """A machine whose clock is an hour ahead of all others."""

    def now(self) -> float:
        return super().now() + 3600.0


async def test_a_daemon_whose_clock_is_wrong_takes_nothing(
    daemons: tuple[Store, Store], url: str, tmp_path: Path, postgres: Postgres
) -> None:
    """Leases begin and end by the database's clock, whatever a daemon's own one says."""
    a, b = daemons
    ahead = await Store.open(tmp_path / "ahead", Ahead(), url)
    try:
        await turn(a, "pve1")
        await turn(ahead, "pve1", "pve2")
        assert (leases(a).held, leases(ahead).held) == ({"pve1": 1}, {"pve2": 1})
        told = await turn(b, "pve1", "pve2")
        assert leases(b).held == {}
        assert all(0 < one.left_s <= 10 for one in told)
        end_lease(postgres, url, "pve2")
        await turn(b, "pve2")
        assert leases(b).held == {"pve2": 2}
    finally:
        await ahead.close()


async def test_a_daemon_that_stands_still_in_a_transaction_holds_up_nobody(
    daemons: tuple[Store, Store], postgres: Postgres, url: str
) -> None:
    """Its host is waited for by no other, which renews its own; then the host is taken."""
    a, b = daemons
    await turn(a, "pve1")
    await turn(b, "pve2")
    engine = create_engine(url)
    try:
        with engine.begin() as stands_still:
            stands_still.execute(text("SELECT * FROM leases WHERE host = 'pve1' FOR UPDATE"))
            end_lease(postgres, url, "pve2")
            told = await turn(b, "pve1", "pve2")
            assert leases(b).held == {"pve2": 1}
            assert next(one.left_s for one in told if one.host == "pve2") > 5
        end_lease(postgres, url)
        await turn(b, "pve1", "pve2")
        assert leases(b).held == {"pve1": 2, "pve2": 1}
    finally:
        engine.dispose()


async def test_a_host_that_another_daemon_is_about_to_add_holds_up_no_renewal(
    daemons: tuple[Store, Store], postgres: Postgres, url: str
) -> None:
    """Whether it is new is not known yet: what is held is renewed, and the new one taken later."""
    _, b = daemons
    await turn(b, "pve2")
    end_lease(postgres, url, "pve2")
    engine = create_engine(url)
    try:
        with engine.begin() as stands_still:
            stands_still.execute(
                text("INSERT INTO leases VALUES ('pve9', 'other', 1, 0, '{}', '[]')")
            )
            told = await turn(b, "pve1", "pve2", "pve9")
            assert leases(b).held == {"pve2": 1}
            assert next(one.left_s for one in told if one.host == "pve2") > 5
        await turn(b, "pve1", "pve2", "pve9")
        assert leases(b).held == {"pve1": 1, "pve2": 1, "pve9": 2}
    finally:
        engine.dispose()


async def test_no_transaction_stands_still_for_longer_than_a_lease(
    daemons: tuple[Store, Store], url: str
) -> None:
    """The server ends it, so that a daemon that sleeps in one is succeeded in time all the same."""
    a, _ = daemons
    found = await a._worker.call(
        lambda c: c.execute(text("SHOW idle_in_transaction_session_timeout")).scalar_one()
    )
    assert found.endswith("s")
    assert float(found.removesuffix("s")) < LEASE_S


async def test_what_was_not_stored_is_not_held(daemons: tuple[Store, Store]) -> None:
    """A connection that is cut in the middle of a turn: the host may be another daemon's by now."""
    a, _ = daemons

    def cut(connection: Connection) -> None:
        leases(a)._turn(connection, ["pve1"], {"pid": 1}, {})
        connection.execute(text("SELECT pg_terminate_backend(pg_backend_pid())"))

    with pytest.raises(StoreError):
        await a._worker.call(cut)
    assert leases(a).held == {}


async def test_a_host_is_handed_over_with_a_new_token(daemons: tuple[Store, Store]) -> None:
    """Who gave it decides nothing more there; nobody gives what is not theirs."""
    a, b = daemons
    await turn(a, "pve1")
    await leases(a).give("pve1", leases(b).owner)
    with pytest.raises(NotDriven):
        await a.runs.create(replace(draft(), host="pve1"))
    with pytest.raises(NotDriven):
        await leases(a).give("pve1", leases(a).owner)
    await turn(a, "pve1")
    await turn(b, "pve1")
    assert (leases(a).held, leases(b).held) == ({}, {"pve1": 2})


async def test_nothing_is_decided_for_a_host_of_another(
    daemons: tuple[Store, Store], postgres: Postgres, url: str
) -> None:
    """A daemon that slept through the end of its lease stores no run and no decision."""
    a, b = daemons
    await turn(a, "pve1")
    run = await a.runs.create(replace(draft(), host="pve1"))
    decision = Decision(run=run, incidents=(incident(run.id),), outgoing=(replace(outgoing("i1")),))
    end_lease(postgres, url)
    await turn(b, "pve1")
    with pytest.raises(NotDriven, match="pve1 is driven by another daemon now"):
        await a.apply(decision)
    with pytest.raises(NotDriven):
        await a.runs.create(replace(draft(), host="pve1"))
    with pytest.raises(NotDriven):
        await a.runs.update(run.id, step=7)
    assert (await b.runs.get(run.id)).step is None
    assert await b.incidents.list() == ()
    await b.apply(decision)
    assert [one.sink for one in await b.deliveries.pending()] == ["ops"]
    await turn(a, "pve1")
    assert await a.deliveries.pending() == ()
    assert await a.deliveries.heads("ops", 9) == ()


async def test_a_host_that_came_back_unseen_is_not_driven_yet(
    daemons: tuple[Store, Store], postgres: Postgres, url: str
) -> None:
    """Handed back by another daemon, its lease is ours by name, and what we know of it is old."""
    a, b = daemons
    await turn(a, "pve1")
    run = await a.runs.create(replace(draft(), host="pve1"))
    end_lease(postgres, url)
    await turn(b, "pve1")
    await leases(b).give("pve1", leases(a).owner)
    with pytest.raises(NotDriven):
        await a.apply(Decision(run=run))
    await turn(a, "pve1")
    await a.apply(Decision(run=run))


async def test_two_daemons_give_no_number_twice(daemons: tuple[Store, Store]) -> None:
    """Runs of one job that are asked for at the same moment have numbers of their own."""
    await turn(daemons[0], "pve1")
    await turn(daemons[1], "pve2")
    asked = [
        store.runs.create(replace(draft(), host=host))
        for _ in range(20)
        for store, host in zip(daemons, ("pve1", "pve2"), strict=True)
    ]
    made = await asyncio.gather(*asked)
    assert sorted(run.number for run in made) == list(range(1, 41))


async def test_a_database_that_is_not_there_is_said(tmp_path: Path) -> None:
    """Wrong words, no server: a sentence without the password, and what to do."""
    for said, match in (
        ("sqlite:///x.db", "only PostgreSQL serves"),
        ("postgresql+psycopg://u:hunter2@127.0.0.1:1/x", "cannot be reached"),
        ("no url", "no URL of a database"),
    ):
        with pytest.raises(StoreError, match=match) as caught:
            await Store.open(tmp_path, SystemClock(), said)
        assert "hunter2" not in str(caught.value)


async def test_a_database_that_comes_back_serves_on(
    daemons: tuple[Store, Store], postgres: Postgres, url: str
) -> None:
    """A cut connection is an error once; the next call has a new one."""
    a, _ = daemons
    await turn(a, "pve1")
    postgres.query(
        url,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()",
    )
    await turn(a, "pve1")
    assert leases(a).held == {"pve1": 1}


async def test_what_a_hung_database_had_no_answer_for_is_not_done_later(
    daemons: tuple[Store, Store], postgres: Postgres, url: str
) -> None:
    """Who was told that it failed can rely on it: nothing of the call is there once it goes on."""
    a, _ = daemons
    await turn(a, "")
    run = await a.runs.create(draft())
    a._worker._within_s = 0.5
    postgres.pause()
    try:
        with pytest.raises(StoreError, match=r"has not answered for 0\.5 s"):
            await a.runs.update(run.id, step=7)
    finally:
        postgres.go_on()
    a._worker._within_s = WITHIN_S
    assert (await a.runs.get(run.id)).step is None
    await a.runs.update(run.id, step=8)
    assert (await a.runs.get(run.id)).step == 8


async def test_a_row_that_somebody_holds_is_said_before_the_wait_ends(
    daemons: tuple[Store, Store], url: str
) -> None:
    """The server itself ends what waits for a lock, while its caller still listens."""
    a, _ = daemons
    await turn(a, "")
    run = await a.runs.create(draft())
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text("SELECT * FROM runs FOR UPDATE"))
        with pytest.raises(StoreError, match="lock timeout"):
            await a.runs.update(run.id, step=7)
    engine.dispose()
    await a.runs.update(run.id, step=8)


async def test_a_schema_of_tomorrow_is_refused(
    daemons: tuple[Store, Store], postgres: Postgres, url: str, tmp_path: Path
) -> None:
    """As with SQLite: nothing is touched, and the sentence says what to do."""
    postgres.query(url, "UPDATE alembic_version SET version_num = '0099'")
    with pytest.raises(StoreError, match=r"newer orch \(schema 0099\)"):
        await Store.open(tmp_path / "c", SystemClock(), url)
    assert postgres.query(url, "SELECT version_num FROM alembic_version") == ["0099"]
    assert schema.HEAD != "0099"
