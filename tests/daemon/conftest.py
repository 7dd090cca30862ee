"""A crew on a real store, with links of its own to this machine."""

import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from orchestrator.clock import SystemClock
from orchestrator.core.errors import TargetError
from orchestrator.core.model import Host
from orchestrator.daemon.board import Board
from orchestrator.daemon.crew import Crew
from orchestrator.daemon.environment import Environment
from orchestrator.daemon.fleet import Fleet
from orchestrator.store import Store
from orchestrator.transport.pool import Pool
from tests.daemon.crews import HastyClock, Source, own_key


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    """An empty store."""
    opened = await Store.open(tmp_path, SystemClock())
    yield opened
    await opened.close()


@pytest.fixture
def elsewhere() -> dict[str, type[TargetError]]:
    """Hosts that went to another daemon while a crew was looking, or let it in no more."""
    return {}


@pytest.fixture
def source() -> Source:
    """The source of the crew's inventory."""
    return Source()


@pytest.fixture
async def crew(
    store: Store, tmp_path: Path, elsewhere: dict[str, type[TargetError]], source: Source
) -> AsyncIterator[Crew]:
    """A crew with nobody to supervise yet."""
    clock, board = HastyClock(), Board(SystemClock())

    def token_of(host: Host) -> int:
        if host.name in elsewhere:
            raise elsewhere[host.name](f"{host.name} is not ours to reach.", target=host.name)
        return 1

    async with AsyncExitStack() as stack:
        pool = Pool()
        stack.push_async_callback(pool.close)
        fleet = Fleet(pool, clock, board, own_key(), token_of)
        stack.push_async_callback(fleet.close)
        made = Crew(
            store=store,
            board=board,
            fleet=fleet,
            clock=clock,
            environment=Environment({}, tmp_path / "env", time.monotonic),
            inventory=source.inventory,
            drives=lambda _: True,
            evidence=tmp_path,
        )
        stack.push_async_callback(made.close)
        yield made
