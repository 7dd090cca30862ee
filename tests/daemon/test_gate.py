"""The line of relaunches."""

import asyncio

from orchestrator.core.decide.storm import AT_ONCE, WITHIN_S
from orchestrator.daemon.gate import Gate
from orchestrator.testing import ManualClock


async def test_turns_come_in_order_and_a_cancelled_one_takes_none() -> None:
    """Above the first few each waits for its minute; who is cancelled while waiting is skipped."""
    clock = ManualClock()
    gate = Gate(clock)
    passed: list[int] = []

    async def member(number: int) -> None:
        await gate.turn()
        passed.append(number)

    members = [asyncio.create_task(member(number)) for number in range(AT_ONCE + 3)]
    await clock.advance(0)
    assert passed == list(range(AT_ONCE))
    members[AT_ONCE].cancel()
    await clock.advance(WITHIN_S)
    assert passed == [*range(AT_ONCE), AT_ONCE + 1, AT_ONCE + 2]
    await asyncio.gather(*members, return_exceptions=True)
