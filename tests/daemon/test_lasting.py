"""A daemon's duties outlive what nobody thought of."""

import asyncio

import pytest

from orchestrator.daemon.lasting import AGAIN_S, lasting
from orchestrator.testing import ManualClock


async def test_a_duty_that_fails_is_said_and_begun_anew(caplog: pytest.LogCaptureFixture) -> None:
    """It is done again after a while, as often as it takes, and over once it is done."""
    clock, begun = ManualClock(), 0

    async def duty() -> None:
        nonlocal begun
        begun += 1
        if begun < 3:
            raise KeyError("a word that a row lacks")

    task = asyncio.create_task(lasting("leases", duty, clock))
    await clock.advance(0)
    assert begun == 1
    assert "duty.failed" in caplog.text
    await clock.advance(AGAIN_S)
    assert begun == 2
    await clock.advance(AGAIN_S)
    await asyncio.wait_for(task, 10)
    assert begun == 3


async def test_a_duty_ends_with_its_daemon() -> None:
    """Who cancels it is not taken for a failure."""
    clock = ManualClock()

    async def duty() -> None:
        await asyncio.Event().wait()

    task = asyncio.create_task(lasting("leases", duty, clock))
    await clock.advance(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled()
