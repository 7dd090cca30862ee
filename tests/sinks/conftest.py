"""An outbox over a real store, with sinks that a test chooses."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.core.decide.decision import Decision, Outgoing
from orchestrator.core.model import IncidentState, Run, RunState, SinkSpec
from orchestrator.sinks import Outbox, Rack
from orchestrator.store import Store
from tests.sinks.alerts import SECRET
from tests.sinks.receiver import HurriedClock
from tests.store.nouns import incident

OPS = SinkSpec(name="ops", type="webhook", url_env="URL", secret_env="SECRET")


class Bench:
    """A store, an outbox that runs, and the variables that it sees."""

    def __init__(self, store: Store, clock: HurriedClock) -> None:
        self.store = store
        self.clock = clock
        self.values: dict[str, str] = {"SECRET": SECRET}
        self.outbox: Outbox
        self._task: asyncio.Task[None] | None = None
        self._run: Run | None = None

    def start(self, *specs: SinkSpec) -> Outbox:
        """Run an outbox with these sinks."""
        sinks = Rack(self.clock).sinks(specs or (OPS,))
        self.outbox = Outbox(self.store.deliveries, sinks, self.clock, self.values.get)
        self._task = asyncio.create_task(self.outbox.run())
        return self.outbox

    async def stop(self) -> None:
        """End it as a daemon does."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def enqueue(self, *outgoing: Outgoing) -> None:
        """Store alerts in one transaction, as a decision does."""
        if self._run is None:
            self._run = await self.store.runs.create(
                Run(
                    id="",
                    uid="u",
                    job="dflash",
                    target="ct200",
                    number=0,
                    state=RunState.RUNNING,
                    attempt=1,
                    session="s",
                    directory="/d",
                )
            )
        await self.store.apply(Decision(run=self._run, outgoing=outgoing))

    async def keep(self, ident: str, state: IncidentState) -> None:
        """Store an incident of these alerts, in this state."""
        assert self._run is not None
        one = replace(incident(self._run.id, ident=ident), state=state)
        await self.store.apply(Decision(run=self._run, incidents=(one,)))

    async def until(self, holds: Callable[[], bool], deadline_s: float = 30.0) -> None:
        """Wait until something holds."""
        async with asyncio.timeout(deadline_s):
            while not holds():
                await asyncio.sleep(0.01)

    async def until_empty(self, deadline_s: float = 30.0) -> None:
        """Wait until nothing is pending."""
        async with asyncio.timeout(deadline_s):
            while await self.store.deliveries.pending():
                await asyncio.sleep(0.02)


@pytest.fixture
def speed() -> float:
    """How much faster than the real clock the outbox's one runs; a test may say another."""
    return 20.0


@pytest.fixture
async def bench(tmp_path: Path, speed: float) -> AsyncIterator[Bench]:
    """A bench whose outbox is not started yet."""
    clock = HurriedClock(speed)
    store = await Store.open(tmp_path / "state", clock)
    made = Bench(store, clock)
    yield made
    await made.stop()
    await store.close()
