"""The links of a fleet, as the inventory is edited."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from orchestrator.clock import SystemClock
from orchestrator.core.model import Host, Target
from orchestrator.daemon.board import Board
from orchestrator.daemon.fleet import Fleet
from orchestrator.transport.pool import Pool
from tests.daemon.crews import own_key
from tests.link.fakes import until


@pytest.fixture
async def fleet() -> AsyncIterator[Fleet]:
    """A fleet with no target yet."""
    clock = SystemClock()
    async with AsyncExitStack() as stack:
        pool = Pool()
        stack.push_async_callback(pool.close)
        made = Fleet(pool, clock, Board(clock), own_key(), lambda _: 0)
        stack.push_async_callback(made.close)
        yield made


def container(name: str, port: int) -> Target:
    """A container of a host where nothing listens."""
    host = Host(name="gone", hostname="127.0.0.1", port=port)
    return Target(name=name, host=host, runtime="lxc", container=name)


def watched() -> int:
    """How many hosts are being asked for their GPUs."""
    return sum(task.get_name() == "gpus gone" for task in asyncio.all_tasks())


async def test_a_host_that_was_edited_is_no_longer_asked_at_its_old_address(fleet: Fleet) -> None:
    """Its old place is let go with the last target there; it went on being asked for ever."""
    for name in ("a", "b"):
        fleet.link(container(name, 1))
    assert watched() == 1
    fleet.link(container("a", 2))
    assert watched() == 2
    fleet.link(container("b", 2))
    await until(lambda: watched() == 1)
