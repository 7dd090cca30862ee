"""A full disk, and a daemon killed at any moment."""

import asyncio
import os
import random
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.clock import SystemClock
from orchestrator.core.decide.decision import Decision
from orchestrator.core.errors import StoreError
from orchestrator.store import Store
from orchestrator.store.schema import DATABASE_FILE
from tests.store.nouns import draft, incident, outgoing


async def test_full_disk_refuses_and_reading_goes_on(sqlite_store: Store) -> None:
    """Where the disk is full nothing is half stored, reading goes on, and space cures it."""
    store = sqlite_store
    run = await store.runs.create(draft())

    def limit(pages: int) -> None:
        engine = store._worker._engine
        with engine.connect() as connection:
            connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")

    await asyncio.get_running_loop().run_in_executor(store._worker._thread, limit, 1)
    decision = Decision(
        run=run,
        incidents=tuple(incident(run.id, ident=f"i{number}") for number in range(200)),
        outgoing=(outgoing("i1"),),
    )
    with pytest.raises(StoreError, match=r"cannot be written: .*full.*Free some space"):
        await store.apply(decision)
    assert await store.runs.get(run.id) == run
    assert await store.incidents.list() == ()
    await asyncio.get_running_loop().run_in_executor(store._worker._thread, limit, 10**6)
    await store.apply(decision)
    assert len(await store.incidents.list()) == 200


async def test_database_locked_by_another_program(sqlite_store: Store, tmp_path: Path) -> None:
    """A lock that somebody else holds too long is said, and is no damage."""
    store = sqlite_store
    run = await store.runs.create(draft())
    other = sqlite3.connect(tmp_path / "state" / DATABASE_FILE, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match="database is locked"):
        await store.runs.update(run.id, step=1)
    other.execute("ROLLBACK")
    other.close()
    await store.runs.update(run.id, step=2)
    assert (await store.runs.get(run.id)).step == 2


async def test_an_alert_of_a_newer_orch_is_sent(sqlite_store: Store, tmp_path: Path) -> None:
    """What it tells besides is left out, and every delivery goes on."""
    run = await sqlite_store.runs.create(draft())
    await sqlite_store.apply(Decision(run=run, outgoing=(outgoing("i1"),)))
    other = sqlite3.connect(tmp_path / "state" / DATABASE_FILE, isolation_level=None)
    other.execute("UPDATE deliveries SET alert = json_set(alert, '$.of_tomorrow', 1)")
    other.close()
    (pending,) = await sqlite_store.deliveries.pending()
    assert pending.alert == outgoing("i1").alert


_WRITER = """
import asyncio, os, sys
from pathlib import Path
from orchestrator.clock import SystemClock
from orchestrator.core.decide.decision import Decision
from orchestrator.store import Store
from tests.store.nouns import draft, incident, outgoing

async def main():
    store = await Store.open(Path(sys.argv[1]), SystemClock())
    os.write(1, b"open\\n")
    while True:
        run = await store.runs.create(draft())
        name = f"i{run.number}"
        await store.apply(
            Decision(run=run, incidents=(incident(run.id, ident=name),), outgoing=(outgoing(name),))
        )
        os.write(1, b"%d\\n" % run.number)

asyncio.run(main())
"""


async def test_kills_lose_nothing_that_was_stored(tmp_path: Path) -> None:
    """After each kill -9 the store opens whole: every decision that returned is there, complete."""
    rng = random.Random(7)
    promised: list[int] = []
    for _ in range(8):
        child = subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(tmp_path)], stdout=subprocess.PIPE, bufsize=0
        )
        assert child.stdout is not None
        wanted = rng.randrange(1, 25)
        seen = b""
        while seen.count(b"\n") < wanted + 1:
            part = os.read(child.stdout.fileno(), 65536)
            assert part, "the writer ended by itself"
            seen += part
        child.send_signal(signal.SIGKILL)
        seen += child.stdout.read()
        child.wait()
        child.stdout.close()
        promised += [int(line) for line in seen.split(b"\n")[1:-1]]
    store = await Store.open(tmp_path, SystemClock())
    assert store.set_aside is None
    numbers = {run.number for run in await store.runs.list()}
    told = {int(one.alert.incident[1:]) for one in await store.deliveries.pending()}
    opened = {int(one.id[1:]) for one in await store.incidents.list()}
    assert set(promised) <= told
    assert told == opened
    assert opened <= numbers
    assert len(promised) == len(set(promised)) >= 8
    await store.close()
