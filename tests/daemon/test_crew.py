"""Which runs a crew takes up: those of a daemon that died, and none that is just being stored."""

import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.clock import SystemClock
from orchestrator.core.inventory.build import parse_inventory
from orchestrator.core.model import RunState
from orchestrator.daemon.board import Board
from orchestrator.daemon.crew import Crew
from orchestrator.daemon.environment import Environment
from orchestrator.daemon.fleet import Fleet
from orchestrator.store import Store
from orchestrator.transport.pool import Pool
from tests.store.nouns import draft

INVENTORY = b"""
version: 1
hosts: {here: {transport: local}}
targets: {ct200: {host: here}}
jobs: {dflash: {target: ct200, workdir: /nowhere, command: sleep 1}}
"""


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    """An empty store."""
    opened = await Store.open(tmp_path, SystemClock())
    yield opened
    await opened.close()


@pytest.fixture
async def crew(store: Store, tmp_path: Path) -> AsyncIterator[Crew]:
    """A crew with nobody to supervise yet."""
    clock, board = SystemClock(), Board(SystemClock())
    inventory = parse_inventory(
        INVENTORY, path="i.yaml", folder="/", exists=lambda _: True, home="/root"
    )
    async with AsyncExitStack() as stack:
        pool = Pool()
        stack.push_async_callback(pool.close)
        fleet = Fleet(pool, clock, board, "test", lambda _: 0)
        stack.push_async_callback(fleet.close)
        made = Crew(
            store=store,
            board=board,
            fleet=fleet,
            clock=clock,
            environment=Environment({}, tmp_path / "env", time.monotonic),
            inventory=lambda: inventory,
            drives=lambda _: True,
            evidence=tmp_path,
        )
        stack.push_async_callback(made.close)
        yield made


async def test_a_run_that_is_being_stored_is_not_forsaken(crew: Crew, store: Store) -> None:
    """A look for runs without a supervisor, which may come at any moment, leaves it alone."""
    asked = replace(draft(), state=RunState.PENDING)
    with crew.beginning(asked.uid):
        run = await store.runs.create(asked)
        await crew.take_up()
        assert (await store.runs.get(run.id)).state is RunState.PENDING
    await crew.take_up()
    assert (await store.runs.get(run.id)).state is not RunState.PENDING
