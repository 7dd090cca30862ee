"""The dead man's switch."""

import asyncio

from orchestrator.sinks.heartbeat import Heartbeat
from tests.sinks.receiver import Answer, HurriedClock, Receiver


async def _until(receiver: Receiver, number: int) -> None:
    async with asyncio.timeout(30):
        while len(receiver.requests) < number:
            await asyncio.sleep(0.01)


async def _silent(receiver: Receiver) -> int:
    """How many requests there were once none came for a second, three beats long."""
    async with asyncio.timeout(30):
        while True:
            before = len(receiver.requests)
            await asyncio.sleep(1.0)
            if len(receiver.requests) == before:
                return before


async def test_beats_only_while_it_sees() -> None:
    """A request a minute, none while the daemon is blind, and failures do not end it."""
    receiver = await Receiver(Answer(cut="before"), Answer(status=500)).start()
    sees = [True]
    heart = Heartbeat(
        lambda: "BEAT", HurriedClock(200.0), {"BEAT": receiver.url}.get, lambda: sees[0]
    )
    beating = asyncio.create_task(heart.run())
    await _until(receiver, 4)
    sees[0] = False
    before = await _silent(receiver)
    sees[0] = True
    await _until(receiver, before + 1)
    beating.cancel()
    await asyncio.gather(beating, return_exceptions=True)
    await receiver.stop()


async def test_no_address_is_no_beat() -> None:
    """Without a value, or with one that is no address, nothing is sent and nothing breaks."""
    for values in ({}, {"BEAT": "ftp://x"}):
        heart = Heartbeat(lambda: "BEAT", HurriedClock(1000.0), values.get, lambda: True)
        beating = asyncio.create_task(heart.run())
        await asyncio.sleep(0.2)
        assert not beating.done()
        beating.cancel()
        await asyncio.gather(beating, return_exceptions=True)


async def test_inventory_without_a_heartbeat_sends_none() -> None:
    """Where the inventory names no address, nothing is looked up or sent."""
    asked: list[str] = []
    heart = Heartbeat(lambda: None, HurriedClock(1000.0), asked.append, lambda: True)
    beating = asyncio.create_task(heart.run())
    await asyncio.sleep(0.2)
    assert not beating.done()
    assert set(asked) <= {""}
    beating.cancel()
    await asyncio.gather(beating, return_exceptions=True)
