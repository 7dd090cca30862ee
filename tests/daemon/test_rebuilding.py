"""Runs of a lost database come back although something is in the way for a while."""

import asyncio
import json
import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from orchestrator.clock import SystemClock
from orchestrator.core.errors import UsageError
from orchestrator.daemon import coming_back
from orchestrator.daemon import rebuilding as rebuilding_module
from orchestrator.daemon.board import Board
from orchestrator.daemon.coming_back import ComingBack, Place
from orchestrator.daemon.crew import Crew
from orchestrator.daemon.environment import Environment
from orchestrator.daemon.fleet import Fleet
from orchestrator.daemon.inventory_file import InventoryFile
from orchestrator.daemon.rebuilding import KEY, Rebuilding
from orchestrator.store import Store
from orchestrator.store.schema import DATABASE_FILE
from orchestrator.transport.pool import Pool
from tests.daemon.crews import own_key

WITHIN_S = 60.0


@pytest.fixture
def file(tmp_path: Path) -> InventoryFile:
    """One job on this machine."""
    path = tmp_path / "inventory.yaml"
    path.write_text(f"""
version: 1
hosts: {{here: {{transport: local}}}}
targets: {{local: {{host: here}}}}
jobs: {{dflash: {{target: local, workdir: {tmp_path}/w, command: sleep 1}}}}
""")
    return InventoryFile(path, tmp_path / "kept.yaml")


@pytest.fixture
async def rebuilding(tmp_path: Path, file: InventoryFile) -> AsyncIterator[Rebuilding]:
    """What asks, with a store that knows nothing yet."""
    clock, board = SystemClock(), Board(SystemClock())
    async with AsyncExitStack() as stack:
        store = await Store.open(tmp_path / "state", clock)
        stack.push_async_callback(store.close)
        pool = Pool()
        stack.push_async_callback(pool.close)
        fleet = Fleet(pool, clock, board, own_key(), lambda _: 0)
        stack.push_async_callback(fleet.close)
        crew = Crew(
            store=store,
            board=board,
            fleet=fleet,
            clock=clock,
            environment=Environment({}, tmp_path / "env", time.monotonic),
            inventory=file.current,
            drives=lambda _: True,
            evidence=tmp_path,
        )
        stack.push_async_callback(crew.close)
        back = ComingBack(file, store)
        yield Rebuilding(clock=clock, file=file, store=store, fleet=fleet, crew=crew, back=back)


def leave_run(rebuilding: Rebuilding, tmp_path: Path, run: str, record: object) -> None:
    """A run is ours by its logs here, and has a record at its target."""
    rebuilding.store.logs.claim(run, "u")
    folder = tmp_path / "w" / "runs" / f"{run}.u" / "attempt-1"
    folder.mkdir(parents=True)
    (folder / "attempt.json").write_text(json.dumps(record))


async def rebuilt(rebuilding: Rebuilding) -> set[str]:
    """The runs that are back, once it is over."""
    async with asyncio.timeout(WITHIN_S):
        await rebuilding.run()
    assert rebuilding.back.over
    known = await rebuilding.store.values.get(KEY)
    assert known is not None
    assert known["done"]
    return {run.id for run in await rebuilding.store.runs.list()}


async def test_a_store_that_takes_nothing_is_tried_again(
    rebuilding: Rebuilding, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It is not over meanwhile, and every run is there afterwards."""
    leave_run(rebuilding, tmp_path, "dflash-1", {"started_at": 1.0})
    other = sqlite3.connect(tmp_path / "state" / DATABASE_FILE, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    asking = asyncio.ensure_future(rebuilt(rebuilding))
    async with asyncio.timeout(WITHIN_S):
        while "store.rebuilding_waits" not in caplog.messages:
            await asyncio.sleep(0.05)
    assert not rebuilding.back.over
    assert not asking.done()
    other.execute("ROLLBACK")
    other.close()
    assert await asking == {"dflash-1"}


@pytest.mark.parametrize(
    "record",
    [
        {"started_at": "x"},
        {"started_at": 10**400},
        {"started_at": float("nan")},
        {"started_at": 1.0, "asked": [1]},
        {"started_at": 1.0, "asked": {"env": ["A=1"]}},
        {"started_at": 1.0, "asked": {"args": 1}},
    ],
    ids=["text", "huge", "nan", "asked", "env", "args"],
)
async def test_damaged_records_of_one_run_cost_no_other(
    rebuilding: Rebuilding, tmp_path: Path, record: object, caplog: pytest.LogCaptureFixture
) -> None:
    """A power cut or a program left something that is no record; it is said which run that was."""
    leave_run(rebuilding, tmp_path, "dflash-1", record)
    leave_run(rebuilding, tmp_path, "dflash-2", {"started_at": 1.0})
    assert await rebuilt(rebuilding) == {"dflash-2"}
    (said,) = [one for one in caplog.records if one.msg == "run.not_rebuilt"]
    assert vars(said)["run"] == "dflash-1.u"


@pytest.mark.parametrize(
    ("of", "odd"),
    [
        ("an earlier attempt", {"code": [1]}),
        ("an earlier attempt", {"code": 10**30}),
        ("the newest", {"ended_at": [2.0]}),
    ],
    ids=["list", "huge", "time"],
)
async def test_a_damaged_end_of_one_run_costs_no_other(
    rebuilding: Rebuilding,
    tmp_path: Path,
    of: str,
    odd: dict[str, object],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Also an earlier attempt's, which is kept as it is: the store would refuse it for ever."""
    end = {"started_at": 1.0, "ended_at": 2.0, "code": 1, "signal": None, **odd}
    leave_run(rebuilding, tmp_path, "dflash-1", {"started_at": 1.0})
    folder = tmp_path / "w" / "runs" / "dflash-1.u"
    (folder / "attempt-1" / "exit.json").write_text(json.dumps(end))
    if of == "an earlier attempt":
        (folder / "attempt-2").mkdir()
        (folder / "attempt-2" / "attempt.json").write_text('{"started_at": 3.0}')
    leave_run(rebuilding, tmp_path, "dflash-2", {"started_at": 1.0})
    assert await rebuilt(rebuilding) == {"dflash-2"}
    said = [one.msg for one in caplog.records if one.name == rebuilding_module.__name__]
    assert said == ["run.not_rebuilt"]


class Lying:
    """A target that answers with what it likes."""

    def __init__(self, runs: list[dict[str, object]]) -> None:
        self._runs = runs

    async def call(self, *_: object, **__: object) -> dict[str, object]:
        """Its answer."""
        return {"runs": self._runs}


def lying(rebuilding: Rebuilding, runs: list[dict[str, object]]) -> Rebuilding:
    """What asks, and has only such a target."""
    fleet = SimpleNamespace(link=lambda _: Lying(runs))
    return replace(rebuilding, fleet=cast(Fleet, fleet))


RECORD = {"number": 1, "attempt": {"started_at": 1.0}, "exit": None}


async def test_only_runs_that_were_asked_for_come_back(
    rebuilding: Rebuilding, tmp_path: Path
) -> None:
    """A target that names another job's run, or none of ours, makes no run of it."""
    leave_run(rebuilding, tmp_path, "dflash-1", {"started_at": 1.0})
    named = ("dflash-1.u", "dflash-1.other", "dflash-7.u", "else-1.u")
    told: list[dict[str, object]] = [{"name": name, "attempts": [RECORD]} for name in named]
    assert await rebuilt(lying(rebuilding, told)) == {"dflash-1"}


async def test_what_nobody_thought_of_ends_no_wait(
    rebuilding: Rebuilding, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It is in the log, and whoever asks for a run of the job is answered."""
    leave_run(rebuilding, tmp_path, "dflash-1", {"started_at": 1.0})
    assert await rebuilt(lying(rebuilding, [{"no name": 1}])) == set()
    (said,) = [one for one in caplog.records if one.msg == "store.not_rebuilt"]
    assert said.exc_info is not None
    await rebuilding.back.settle_job("dflash")


async def test_a_job_that_leaves_the_inventory_is_waited_for_no_longer(
    rebuilding: Rebuilding, tmp_path: Path, file: InventoryFile
) -> None:
    """Its target cannot be reached, and is in the way of nothing once nobody names it."""
    path, good = tmp_path / "inventory.yaml", (tmp_path / "inventory.yaml").read_text()
    away = good.replace("{transport: local}", "{hostname: 127.0.0.1, port: 1}")
    path.write_text(away)
    await file.refresh()
    leave_run(rebuilding, tmp_path, "dflash-1", {"started_at": 1.0})
    asking = asyncio.ensure_future(rebuilt(rebuilding))
    async with asyncio.timeout(WITHIN_S):
        while rebuilding.back.words is None:
            await asyncio.sleep(0.05)
    path.write_text(away.partition("jobs:")[0])
    await file.refresh()
    assert await asking == set()


async def test_a_target_is_asked_at_its_new_address(
    rebuilding: Rebuilding, tmp_path: Path, file: InventoryFile
) -> None:
    """An edit that mends the way to it counts at once; the old way is not tried again."""
    path, good = tmp_path / "inventory.yaml", (tmp_path / "inventory.yaml").read_text()
    path.write_text(good.replace("{transport: local}", "{hostname: 127.0.0.1, port: 1}"))
    await file.refresh()
    leave_run(rebuilding, tmp_path, "dflash-1", {"started_at": 1.0})
    asking = asyncio.ensure_future(rebuilt(rebuilding))
    async with asyncio.timeout(WITHIN_S):
        while rebuilding.back.words is None:
            await asyncio.sleep(0.05)
    path.write_text(good)
    await file.refresh()
    assert await asking == {"dflash-1"}


async def test_who_asks_is_told_where_nothing_is_known_yet(
    file: InventoryFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wait has an end, and a place that refuses is in nobody's way."""
    monkeypatch.setattr(coming_back, "WAITS_S", 0.05)
    monkeypatch.setattr(coming_back, "ACTS_AFTER_S", 0.05)
    store = await Store.open(tmp_path / "state", SystemClock())
    back = ComingBack(file, store)
    assert await back.lacks("dflash")
    with pytest.raises(UsageError, match="it is not known yet of which targets"):
        await back.settle_job("dflash")
    back.ask({Place("dflash", "local")})
    back.refused(Place("dflash", "local"), "no Python there.")
    await back.settle_job("dflash")
    assert back.refusals == "local: no Python there."
    await store.close()


async def test_a_run_without_a_reason_comes_back_without_one(
    rebuilding: Rebuilding, tmp_path: Path
) -> None:
    """Only of a run whose target does not say what it was asked for, that is said in its place."""
    asked = {"target": "local", "why": "", "args": [], "env": {}, "whole": True}
    leave_run(rebuilding, tmp_path, "dflash-1", {"started_at": 1.0, "asked": asked})
    leave_run(rebuilding, tmp_path, "dflash-2", {"started_at": 1.0})
    assert await rebuilt(rebuilding) == {"dflash-1", "dflash-2"}
    whys = [(await rebuilding.store.runs.get(run)).why for run in ("dflash-1", "dflash-2")]
    assert whys == ["", "rebuilt from what its target knew"]
