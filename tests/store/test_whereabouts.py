"""Where a run is, as the store keeps it: with every field, and none in a database of before."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text

from orchestrator.clock import SystemClock
from orchestrator.core.errors import StoreError
from orchestrator.core.model import Host, Target
from orchestrator.store import Store
from orchestrator.store.schema import DATABASE_FILE, HEAD
from tests.lab.postgres import Postgres
from tests.store.nouns import draft

PLACE = Target(
    name="ct200",
    host=Host(
        name="pve1", hostname="10.1.2.6", port=2222, user="u", identity_file="/k", become="sudo"
    ),
    runtime="pct",
    container="200",
    user="ml",
    tmux_socket="s",
    python="/opt/python3",
    labels={"rack": "a"},
)


async def test_every_field_of_a_place_survives_the_way_back(store: Store) -> None:
    """As it was at the launch, as it is seen later, and over a decision that knows less."""
    run = await store.runs.create(replace(draft(), whereabouts=PLACE))
    assert (await store.runs.get(run.id)).whereabouts == PLACE
    moved = replace(PLACE, host=replace(PLACE.host, hostname="10.1.2.7"))
    await store.runs.update(run.id, whereabouts=moved)
    assert (await store.view(run.id)).run == replace(run, whereabouts=moved)


def test_a_place_that_another_version_wrote_is_read() -> None:
    """What is not known here is passed over, what is missing is what it is by itself."""
    said = PLACE.to_json()
    newer = {**said, "zone": 1, "host": {**said["host"], "zone": 1}}
    assert Target.from_json(newer) == PLACE
    assert Target.from_json({"name": "a", "host": {"name": "b"}}) == Target(
        name="a", host=Host(name="b")
    )


@pytest.mark.parametrize("said", [[], {}, {"name": "a"}, {"name": "a", "host": 1}, "a"])
def test_what_is_no_place_is_said(said: Any) -> None:
    """It is a ValueError, which the check of the database knows."""
    with pytest.raises(ValueError, match="no target"):
        Target.from_json(said)


async def test_a_place_that_is_none_refuses_the_start(tmp_path: Path) -> None:
    """It is no damage of SQLite's, and named with its run; the file is left alone."""
    store = await Store.open(tmp_path, SystemClock())
    await store.runs.create(replace(draft(), whereabouts=PLACE))
    await store.close()
    with closing(sqlite3.connect(tmp_path / DATABASE_FILE)) as raw, raw:
        raw.execute("UPDATE runs SET whereabouts = '[1]'")
    with pytest.raises(StoreError, match="runs, seq 1: ValueError: no target"):
        await Store.open(tmp_path, SystemClock())


@pytest.mark.parametrize(
    "kind", ["sqlite", pytest.param("postgres", marks=pytest.mark.xdist_group("pg"))]
)
async def test_runs_of_a_database_of_before_have_no_place(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """They are there as they were, and get one when they are seen."""
    url = None
    if kind == "postgres":
        server: Postgres = request.getfixturevalue("postgres")
        url = server.database()
    store = await opened(tmp_path, url)
    run = await store.runs.create(replace(draft(), whereabouts=PLACE))
    if store.leases is not None:
        await store.leases.release()
    await store.close()
    engine = create_engine(url or f"sqlite:///{tmp_path / DATABASE_FILE}")
    with engine.begin() as before:
        before.execute(text("ALTER TABLE runs DROP COLUMN whereabouts"))
        before.execute(text("UPDATE alembic_version SET version_num = '0007'"))
    store = await opened(tmp_path, url)
    with engine.begin() as after:
        version = after.execute(text("SELECT version_num FROM alembic_version")).scalar_one()
    engine.dispose()
    assert version == HEAD
    assert await store.runs.list() == (replace(run, whereabouts=None),)
    await store.runs.update(run.id, whereabouts=PLACE)
    assert await store.runs.list() == (run,)
    await store.close()


async def opened(folder: Path, url: str | None) -> Store:
    """A store that may write."""
    store = await Store.open(folder, SystemClock(), url)
    if store.leases is not None:
        await store.leases.turn([""], {}, {})
    return store
