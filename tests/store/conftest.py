"""Real stores on the real clock: a SQLite file in a temporary folder, and a PostgreSQL."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from orchestrator.clock import SystemClock
from orchestrator.store import Store
from tests.lab.postgres import Postgres


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.xdist_group("pg"))])
async def store(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Store]:
    """An empty store of each kind."""
    url = None
    if request.param == "postgres":
        server: Postgres = request.getfixturevalue("postgres")
        url = server.database()
    opened = await Store.open(tmp_path / "state", SystemClock(), url)
    if opened.leases is not None:
        await opened.leases.turn([""], {}, {})
    yield opened
    await opened.close()


@pytest.fixture
async def sqlite_store(tmp_path: Path) -> AsyncIterator[Store]:
    """An empty store in a SQLite file."""
    opened = await Store.open(tmp_path / "state", SystemClock())
    yield opened
    await opened.close()
