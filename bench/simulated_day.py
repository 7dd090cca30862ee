"""A day of a busy fleet on a manual clock: 200 runs, 5000 incidents, a receiver with bad hours.

    python -m bench.simulated_day [--minutes 6] [--json]

Real decide/, real store, real outbox; simulated time and receiver. Time stands still while anything
is being done, and then goes on to whatever is due next. After the day it waits until nothing is
left to be sent, at most AFTERWARDS_S of its own time. After `--minutes` of ours it gives up.
"""

import argparse
import asyncio
import logging
import random
import resource
import selectors
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from pathlib import Path
from typing import Any, TypeVar

from bench.observe.figures import show
from orchestrator.clock import SystemClock
from orchestrator.core.decide.decision import RunView, after
from orchestrator.core.decide.inputs import Accepted, Input
from orchestrator.core.decide.lifecycle import decide
from orchestrator.core.model import AlertsSpec
from orchestrator.sinks import Message, Outbox, Result
from orchestrator.sinks.base import Lookup, refused, taken
from orchestrator.store import Store
from tests.core.decide.stories import SINKS, Story, crash, fine, policy, run, seen

RUNS = 200
FINDINGS_A_RUN = 25
DAY_S = 86_400.0
AFTERWARDS_S = 7200.0
DOWN = (30_000.0, 33_600.0)
"""Refuses everything."""
BUSY = (50_000.0, 52_000.0)
"""Answers 429 with a Retry-After to most."""
RETRY_AFTER_S = 300.0
LOST_ANSWERS = 0.02
"""Share of the messages that are taken, and whose answer never comes."""
LOOK_EVERY_S = 60.0

T = TypeVar("T")


class DayLoop(asyncio.SelectorEventLoop):
    """A loop whose time passes only while nothing is being done, here or in a thread."""

    def __init__(self) -> None:
        self.passed = 0.0
        self.num_away = 0
        super().__init__(_Waiting(self))

    def time(self) -> float:
        return self.passed

    def run_in_executor(  # type: ignore[override]  # the base's own is loosely typed
        self, executor: Executor | None, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        self.num_away += 1
        future = super().run_in_executor(executor, func, *args)
        future.add_done_callback(self._back)
        return future

    def _back(self, _: object) -> None:
        self.num_away -= 1


class _Waiting(selectors.DefaultSelector):
    """Where the loop would wait for its next timer, that timer's moment has come."""

    def __init__(self, loop: DayLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if self._loop.num_away:
            return super().select(None if timeout is None or timeout > 0 else 0)
        if timeout is not None and timeout > 0:
            self._loop.passed += timeout
            return super().select(0)
        return super().select(timeout)


class DayClock(SystemClock):
    """The loop's time, from a morning of its own."""

    def now(self) -> float:
        return 1_800_000_000.0 + self.monotonic()

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()


class Receiver:
    """Has a bad hour and a busy one, loses answers, and honours `webhook-id`."""

    name = "ops"
    type = "memory"

    def __init__(self, clock: DayClock, rng: random.Random) -> None:
        self._clock, self._rng = clock, rng
        self._ids: set[str] = set()
        self.refused = 0
        self.repeated = 0
        self.alerts: dict[str, int] = {}
        self.last: dict[str, int] = {}
        self.disordered = 0

    @property
    def messages(self) -> int:
        """How many it has taken."""
        return len(self._ids)

    def wants(self) -> tuple[str, ...]:
        return ()

    async def send(self, message: Message, lookup: Lookup) -> Result:  # noqa: ARG002  a Sink's
        await self._clock.sleep(self._rng.uniform(0.02, 2.0))
        now = self._clock.monotonic()
        if DOWN[0] <= now < DOWN[1]:
            self.refused += 1
            return refused("down")
        if BUSY[0] <= now < BUSY[1] and self._rng.random() < 0.8:
            self.refused += 1
            return refused("429", RETRY_AFTER_S)
        self._take(message)
        if self._rng.random() < LOST_ANSWERS:
            self.refused += 1
            return refused("no answer")
        return taken("ok")

    def _take(self, message: Message) -> None:
        if message.id in self._ids:
            self.repeated += 1
            return
        self._ids.add(message.id)
        for alert in message.alerts:
            self.alerts[alert.id] = self.alerts.get(alert.id, 0) + 1
            # Whoever reads them one after the other must never see an end before its beginning.
            over = self.last.get(alert.incident) == 1
            self.disordered += over and alert.status == "firing"
            self.last[alert.incident] = int(alert.status == "resolved")

    async def close(self) -> None:
        """Nothing is open."""


async def _live(
    store: Store, clock: DayClock, rng: random.Random, decisions: list[int], number: int
) -> None:
    """One run from its request to its end; counts its decisions."""
    rules = policy("infra", max_attempts=3, alerts=AlertsSpec(sinks=SINKS[:1]))
    await clock.sleep(rng.random() * DAY_S / 2)
    created = await store.runs.create(run(number=0))
    story = Story(rules)
    story.view = RunView(run=created)
    length = rng.uniform(0.1, 0.5) * DAY_S
    events = _events(story, rng)
    for event in events:
        await clock.sleep(length / (FINDINGS_A_RUN + 4))
        decision = decide(story.view, event(), rules, clock.now())
        await store.apply(decision)
        story.view = after(story.view, decision)
        decisions[number] += 1


def _events(story: Story, rng: random.Random) -> Iterator[Callable[[], Input]]:
    def found() -> Input:
        kind = rng.choice(["cuda_oom", "fx_trace_race", "nccl_error", "nan_loss"])
        return seen(kind, family=None, fingerprint=f"v1:{rng.random()}")

    yield Accepted
    yield story.launched
    for _ in range(FINDINGS_A_RUN):
        yield found
    good = rng.random() < 0.3
    yield lambda: story.exited(0 if good else 1)
    yield lambda: fine() if good else crash("python_error", family=None)


async def _lived(
    store: Store, clock: DayClock, rng: random.Random, decisions: list[int], until: float
) -> bool:
    """Whether the day came to its end, with nothing left to send, before our own time was up."""
    async with asyncio.TaskGroup() as group:
        lives = [
            group.create_task(_live(store, clock, rng, decisions, number)) for number in range(RUNS)
        ]
        while not all(life.done() for life in lives):
            if time.monotonic() > until:
                for life in lives:
                    life.cancel()
                return False
            await clock.sleep(LOOK_EVERY_S)
    await clock.sleep(max(0.0, DAY_S - clock.monotonic()))
    over = clock.monotonic() + AFTERWARDS_S
    while await store.deliveries.pending() and clock.monotonic() < over:
        if time.monotonic() > until:
            return False
        await clock.sleep(LOOK_EVERY_S)
    return True


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.glob("orch.db*"))


async def day(within_s: float) -> dict[str, Any]:
    """The figures of a day; of what there was of it where the time was up."""
    logging.disable(logging.WARNING)
    rng, clock, begun = random.Random(1), DayClock(), time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        store = await Store.open(Path(folder), clock)
        receiver = Receiver(clock, random.Random(2))
        outbox = Outbox(store.deliveries, (receiver,), clock, lambda _name: None)
        sending = asyncio.create_task(outbox.run())
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        decisions = [0] * RUNS
        whole = await _lived(store, clock, rng, decisions, begun + within_s)
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        counts = await store.deliveries.counts()
        stored = sum(counts.get("ops", {}).values())
        # Where the time is up something is on its way, and may have arrived without a word of it.
        waiting = counts.get("ops", {}).get("pending", 0)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        found = {
            "real_s": round(time.monotonic() - begun, 1),
            "simulated_h": round(clock.monotonic() / 3600, 1),
            "out_of_time": not whole,
            "decisions": sum(decisions),
            "incidents": len(await store.incidents.list()),
            "alerts_stored": stored,
            "alerts_arrived": len(receiver.alerts),
            "alerts_waiting": waiting,
            "alerts_lost": max(0, stored - waiting - len(receiver.alerts)),
            "alerts_doubled": sum(1 for n in receiver.alerts.values() if n > 1),
            "alerts_disordered": receiver.disordered,
            "messages": receiver.messages,
            "messages_repeated": receiver.repeated,
            "refused": receiver.refused,
            "database_mb": round(_size(Path(folder)) / 1e6, 1),
            "memory_growth_mb": round(grown / 1e3, 1),
        }
        await store.close()
    return found


def main() -> int:
    """Run and report; 1 where an alert was lost, waits or was told twice, or the time was up."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=6.0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with asyncio.Runner(loop_factory=DayLoop) as runner:
        found = runner.run(day(60.0 * options.minutes))
    show([found], as_json=options.json)
    wrong = ("out_of_time", "alerts_lost", "alerts_waiting", "alerts_doubled", "alerts_disordered")
    return 1 if any(found[name] for name in wrong) else 0


if __name__ == "__main__":
    sys.exit(main())
