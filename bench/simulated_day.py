"""A day of a busy fleet in minutes: 200 runs, 5000 incidents, a receiver that is down for an hour.

    python -m bench.simulated_day [--minutes 15] [--json]

Real decide/, real store, real outbox; simulated time and receiver. After `--minutes` it gives up.
"""

import argparse
import asyncio
import logging
import random
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

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
FINDINGS_A_RUN = 24
DAY_S = 86_400.0
SPEED = 500.0
DOWN = (30_000.0, 33_600.0)


class DayClock(SystemClock):
    """Many times as fast as the real one."""

    def __init__(self) -> None:
        self._start = time.monotonic()

    def now(self) -> float:
        return 1_800_000_000.0 + self.monotonic()

    def monotonic(self) -> float:
        return (time.monotonic() - self._start) * SPEED

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / SPEED)


class Receiver:
    """Takes everything but for one hour, and remembers ids."""

    name = "ops"
    type = "memory"

    def __init__(self, clock: DayClock) -> None:
        self._clock = clock
        self.messages = 0
        self.refused = 0
        self.alerts: dict[str, int] = {}

    def wants(self) -> tuple[str, ...]:
        return ()

    async def send(self, message: Message, lookup: Lookup) -> Result:  # noqa: ARG002  a Sink's
        if DOWN[0] <= self._clock.monotonic() < DOWN[1]:
            self.refused += 1
            return refused("down")
        self.messages += 1
        for alert in message.alerts:
            self.alerts[alert.id] = self.alerts.get(alert.id, 0) + 1
        return taken("ok")

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
        await clock.sleep(length / FINDINGS_A_RUN)
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


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.glob("orch.db*"))


async def day(within_s: float) -> dict[str, Any]:
    """The figures of a day; of what there was of it where the time was up."""
    logging.disable(logging.WARNING)
    rng, clock, begun = random.Random(1), DayClock(), time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        store = await Store.open(Path(folder), clock)
        receiver = Receiver(clock)
        outbox = Outbox(store.deliveries, (receiver,), clock, lambda _name: None)
        sending = asyncio.create_task(outbox.run())
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        decisions, out_of_time = [0] * RUNS, False
        try:
            async with asyncio.timeout(within_s), asyncio.TaskGroup() as group:
                for number in range(RUNS):
                    group.create_task(_live(store, clock, rng, decisions, number))
            async with asyncio.timeout_at(begun + within_s):
                while await store.deliveries.pending():
                    await asyncio.sleep(0.1)
        except TimeoutError:
            out_of_time = True
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
            "out_of_time": out_of_time,
            "decisions": sum(decisions),
            "incidents": len(await store.incidents.list()),
            "alerts_stored": stored,
            "alerts_arrived": len(receiver.alerts),
            "alerts_waiting": waiting,
            "alerts_lost": max(0, stored - waiting - len(receiver.alerts)),
            "alerts_doubled": sum(1 for n in receiver.alerts.values() if n > 1),
            "messages": receiver.messages,
            "refused": receiver.refused,
            "database_mb": round(_size(Path(folder)) / 1e6, 1),
            "memory_growth_mb": round(grown / 1e3, 1),
        }
        await store.close()
    return found


def main() -> int:
    """Run and report; 1 where an alert was lost or told twice, or the time was up."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=15.0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = asyncio.run(day(60.0 * options.minutes))
    show([found], as_json=options.json)
    return 1 if found["out_of_time"] or found["alerts_lost"] or found["alerts_doubled"] else 0


if __name__ == "__main__":
    sys.exit(main())
