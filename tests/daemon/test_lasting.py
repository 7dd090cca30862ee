"""A daemon's duties outlive what nobody thought of."""

import asyncio
import itertools

import pytest

from orchestrator.daemon.lasting import AGAIN_S, MOST_S, STEADY_S, lasting
from orchestrator.daemon.leasing import ALONE_S, TURN_S
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
    await clock.advance(2 * AGAIN_S)
    await asyncio.wait_for(task, 10)
    assert begun == 3


def test_leases_are_confirmed_again_before_they_count_as_lost() -> None:
    """A turn ago they were confirmed, and a turn after the failure they are again."""
    assert TURN_S + AGAIN_S + TURN_S < ALONE_S


async def test_what_fails_again_and_again_is_begun_less_often() -> None:
    """Up to a limit; after it went well for long it is begun anew as soon as at first."""
    clock, begun, lasts_s = ManualClock(), [], 0.0

    async def duty() -> None:
        begun.append(clock.monotonic())
        await clock.sleep(lasts_s)
        raise KeyError("a word that a row lacks")

    async def until(count: int) -> list[float]:
        async with asyncio.timeout(30):
            while len(begun) < count:
                await clock.advance(0.5)
        return [later - one for one, later in itertools.pairwise(begun)]

    task = asyncio.create_task(lasting("leases", duty, clock))
    assert await until(6) == [1.0, 2.0, 4.0, MOST_S, MOST_S]
    lasts_s = 2 * STEADY_S
    pauses = await until(8)
    assert pauses[5:] == [MOST_S, 2 * STEADY_S + AGAIN_S]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


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
