"""The outbox of a daemon that takes a host over from another one, on a real PostgreSQL."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.core.decide.decision import Decision
from orchestrator.store import Store
from tests.lab.postgres import Postgres
from tests.sinks.alerts import outgoing
from tests.sinks.conftest import Bench
from tests.sinks.receiver import Answer, HurriedClock, Receiver
from tests.store.nouns import draft
from tests.store.test_leases import end_lease, turn

pytestmark = pytest.mark.xdist_group("pg")


@pytest.fixture
def url(postgres: Postgres) -> str:
    """An empty database."""
    return postgres.database()


@pytest.fixture
async def daemons(url: str, tmp_path: Path) -> AsyncIterator[tuple[Bench, Bench]]:
    """Two daemons' outboxes on one database; none is started yet."""
    clock = HurriedClock(1.0)
    async with AsyncExitStack() as stack:
        made = []
        for name in ("a", "b"):
            store = await Store.open(tmp_path / name, clock, url)
            stack.push_async_callback(store.close)
            made.append(Bench(store, clock))
            stack.push_async_callback(made[-1].stop)
        yield made[0], made[1]


@pytest.mark.parametrize("been_away", [False, True])
async def test_host_that_is_taken_over_brings_what_its_disabled_sink_was_not_told(
    daemons: tuple[Bench, Bench], postgres: Postgres, url: str, been_away: bool
) -> None:
    """A daemon that has run for long tells it as a new one does, also of a host it had before."""
    first, second = daemons
    receiver = await Receiver().start()
    second.values["URL"] = receiver.url
    if been_away:
        await turn(second.store, "pve1")
    second.start()
    await second.until(lambda: second.outbox._lanes["ops"].checked is not None)
    end_lease(postgres, url)
    await turn(first.store, "pve1")
    gone = await Receiver(then=Answer(status=410)).start()
    first.values["URL"] = gone.url
    first.start()
    run = await first.store.runs.create(replace(draft(), host="pve1"))
    await first.store.apply(Decision(run=run, outgoing=(outgoing("i1"),)))
    await first.until_empty()
    await first.stop()
    end_lease(postgres, url)
    await turn(second.store, "pve1")
    second.outbox.poke()
    (request,) = await receiver.until(1)
    assert request.headers["webhook-id"] == "i1-firing-1"
    await second.until_empty()
    await gone.stop()
    await receiver.stop()
