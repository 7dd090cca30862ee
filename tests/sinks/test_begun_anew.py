"""An outbox that failed in a way that nobody thought of goes on, as a daemon's other duties do."""

import asyncio

import pytest

from orchestrator.daemon.lasting import lasting
from orchestrator.sinks import Outbox, Rack
from tests.sinks.alerts import outgoing
from tests.sinks.conftest import OPS, Bench
from tests.sinks.receiver import Answer, Receiver


async def test_what_was_in_flight_and_what_is_new_is_sent_after_a_failure(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    """The sinks that were closed over it serve again, and nothing counts as still under way."""
    receiver = await Receiver(Answer(wait_s=60.0)).start()
    bench.values["URL"] = receiver.url
    broken = False

    def lookup(name: str) -> str | None:
        if broken:
            raise KeyError("nobody thought of it")
        return bench.values.get(name)

    outbox = Outbox(bench.store.deliveries, Rack(bench.clock).sinks((OPS,)), bench.clock, lookup)
    task = asyncio.create_task(lasting("outbox", outbox.run, bench.clock))
    await bench.enqueue(outgoing("i1"))
    await bench.until(lambda: len(receiver.requests) == 1)
    broken = True
    outbox.poke()
    await bench.until(lambda: "duty.failed" in caplog.text)
    broken = False
    await bench.enqueue(outgoing("i2"))
    await bench.until_empty()
    sent = {request.headers["webhook-id"] for request in receiver.requests[1:]}
    assert sent == {"i1-firing-1", "i2-firing-1"}
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await receiver.stop()
