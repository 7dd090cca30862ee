"""The outbox: takes deliveries from the durable queue to their sinks until they are taken.

    outbox = Outbox(store.deliveries, rack.sinks(inventory.alerts.sinks), clock, lookup)
    group.create_task(outbox.run())      it wakes by itself when something is enqueued
    outbox.follow(sinks)                 after the inventory has changed
    outbox.poke()                        after values of variables have changed
    await outbox.status()                ready | unset | disabled | removed, error, pending
    await outbox.test("ops")             one message now, past the queue

At least once, each incident in order and on its own: first at once, again after 1 s, doubling to
1 min. Above 30 messages a minute to a sink what is new goes into digests. Must not: decide what
is alerted, or keep an address.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

from orchestrator.clock import Clock
from orchestrator.core.errors import StoreError, UsageError
from orchestrator.core.model import Delivery
from orchestrator.sinks.base import (
    Lookup,
    Outcome,
    Queue,
    Result,
    Sink,
    SinkStatus,
    refused,
)
from orchestrator.sinks.lane import Lane
from orchestrator.sinks.messages import test_message
from orchestrator.sinks.sending import STORE_PAUSE_S, Sending

MAX_IN_FLIGHT = 8
"""Requests to one sink at a time."""
DIGEST_ABOVE = 30
DIGEST_WINDOW_S = 60.0
DIGEST_EVERY_S = 10.0
DIGEST_ALERTS = 50
LOOK_AGAIN_S = 60.0
"""Even without a wake: an unset sink's variables may have got values."""
REMOVED = "no longer in the inventory: put it back, or what waits is forgotten after 30 days"
MAX_WAIT_S = 3700.0
QUIET_MOST_S = 90_000.0
"""Quiet hours are less than a day, and a day may have 25 hours."""

logger = logging.getLogger(__name__)


class Outbox:
    """Feeds every sink from the queue."""

    def __init__(
        self,
        queue: Queue,
        sinks: tuple[Sink, ...],
        clock: Clock,
        lookup: Lookup,
        cover: Callable[[str], str] = str,
    ) -> None:
        """`cover` takes the values of secrets out of a text that is to be sent."""
        self._queue = queue
        self._clock = clock
        self._lookup = lookup
        self._sending = Sending(queue=queue, clock=clock, lookup=lookup, cover=cover)
        self._lanes = {sink.name: Lane(sink) for sink in sinks}
        self._group: asyncio.TaskGroup | None = None
        queue.subscribe(self.poke)

    def follow(self, sinks: tuple[Sink, ...]) -> None:
        """These are the sinks from now on; the same object as before goes on undisturbed."""
        before, self._lanes = self._lanes, {}
        for sink in sinks:
            lane = before.pop(sink.name, None)
            if lane is not None and lane.sink is not sink:
                lane = Lane(sink, after=self._retire(lane))
            self._lanes[sink.name] = lane or Lane(sink)
        for lane in before.values():
            self._retire(lane)
        self._serve_all()

    def poke(self) -> None:
        """Look at the queue now."""
        for lane in self._lanes.values():
            lane.wake.set()

    async def run(self) -> None:
        """Deliver for ever; what is in flight at the end is sent again by whoever begins anew.

        That may be this one, after a failure: its sinks open their connections again.
        """
        for name, lane in self._lanes.items():
            self._lanes[name] = replace(lane, serving=None, after=None, requests=0, in_flight=set())
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                self._serve_all()
                await asyncio.Event().wait()
        finally:
            self._group = None
            for lane in self._lanes.values():
                await lane.sink.close()

    async def status(self) -> tuple[SinkStatus, ...]:
        """How every sink does, in the inventory's order; last what waits for a removed one."""
        counts = await self._queue.counts()
        removed = tuple(
            SinkStatus(
                name=name,
                type="",
                state="removed",
                missing=(),
                error=REMOVED,
                pending=number["pending"],
                disabled=number.get("disabled", 0),
                taken_at=None,
            )
            for name, number in counts.items()
            if name not in self._lanes and number.get("pending")
        )
        return (
            *(
                SinkStatus(
                    name=lane.sink.name,
                    type=lane.sink.type,
                    state=lane.state(self._lookup),
                    missing=lane.missing(self._lookup),
                    error=lane.error,
                    pending=counts.get(lane.sink.name, {}).get("pending", 0),
                    disabled=counts.get(lane.sink.name, {}).get("disabled", 0),
                    taken_at=lane.taken_at,
                )
                for lane in self._lanes.values()
            ),
            *removed,
        )

    async def test(self, sink: str) -> Result:
        """Send a test alert to one sink now; a disabled one that takes it is ready again."""
        lane = self._lanes.get(sink)
        if lane is None:
            known = ", ".join(self._lanes) or "none"
            raise UsageError(f"There is no sink {sink}; the inventory has {known}.")
        if missing := lane.missing(self._lookup):
            verb, it = ("has", "it") if len(missing) == 1 else ("have", "them")
            names = " and ".join(missing)
            return refused(f"{names} {verb} no value; export {it} and run any command again")
        result = await self._sending.sent(lane, test_message(self._clock))
        self._sending.learn(lane, result)
        if result.outcome is Outcome.TAKEN:
            lane.gone = None
            lane.wake.set()
        return result

    def _serve_all(self) -> None:
        for lane in self._lanes.values():
            if lane.serving is None and self._group is not None:
                lane.serving = self._group.create_task(self._serve(lane, self._group))

    def _retire(self, lane: Lane) -> asyncio.Task[None] | None:
        """Send nothing more to a sink, and close it once what is under way has its answer."""
        if lane.serving is None or self._group is None:
            return None
        lane.serving.cancel()
        return self._group.create_task(self._let_go(lane))

    async def _let_go(self, lane: Lane) -> None:
        while lane.requests:
            lane.wake.clear()
            await lane.wake.wait()
        await lane.sink.close()

    async def _serve(self, lane: Lane, group: asyncio.TaskGroup) -> None:
        if lane.after is not None:
            await asyncio.wait({lane.after})
        while True:
            lane.wake.clear()
            try:
                delay = await self._turn(lane, group)
            except StoreError as exc:
                logger.warning("outbox.store_refused", extra={"reason": str(exc)})
                delay = STORE_PAUSE_S
            async with self._alarm(lane, delay):
                await lane.wake.wait()

    @asynccontextmanager
    async def _alarm(self, lane: Lane, delay: float) -> AsyncIterator[None]:
        async def ring() -> None:
            await self._clock.sleep(delay)
            lane.wake.set()

        async with asyncio.TaskGroup() as group:
            alarm = group.create_task(ring())
            yield
            alarm.cancel()

    async def _turn(self, lane: Lane, group: asyncio.TaskGroup) -> float:
        """Start what is due and say after how many seconds to look again."""
        name = lane.sink.name
        state = lane.state(self._lookup)
        if state == "disabled":
            await self._queue.disable(name, lane.error or "disabled")
        if state == "unset":
            await self._queue.mark_unset(name)
        if state != "ready":
            lane.checked = None
            return LOOK_AGAIN_S
        await self._begin(lane)
        pause = lane.paused_until - self._clock.monotonic()
        if pause > 0:
            return pause
        now = self._clock.now()
        # One more than can be sent, so that the first one that is not due is seen as well.
        crowded = self._crowded(lane)
        room = DIGEST_ALERTS if crowded else MAX_IN_FLIGHT
        found = await self._queue.heads(name, room + len(lane.in_flight) + 1)
        heads = [one for one in found if one.id not in lane.in_flight]
        waits = [LOOK_AGAIN_S, *(wait for one in heads if (wait := _wait_s(one, now)))]
        due = [one for one in heads if not _wait_s(one, now)]
        fresh = [one for one in due if one.attempts == 0 and one.digest is None]
        for one in due:
            if self._crowded(lane) is not crowded:
                return 0.0
            if lane.requests < MAX_IN_FLIGHT:
                waits.append(await self._start(lane, one, fresh, group))
        return min(waits)

    async def _begin(self, lane: Lane) -> None:
        """What new values or hosts change: what is over is not told, and what failed is due."""
        hosts = self._queue.hosts()
        if lane.checked != hosts:
            await self._queue.revive(lane.sink.name)
            await self._queue.forget_over(lane.sink.name)
            lane.checked = hosts
        if lane.refused not in {None, lane.values(self._lookup)}:
            lane.refused, lane.paused_until = None, float("-inf")
            await self._queue.hurry(lane.sink.name, self._clock.now())

    async def _start(
        self, lane: Lane, one: Delivery, fresh: list[Delivery], group: asyncio.TaskGroup
    ) -> float:
        """Send one delivery or its digest; else the seconds until that may be done."""
        if one.id in lane.in_flight:
            return LOOK_AGAIN_S
        bundle: tuple[Delivery, ...] = (one,)
        if one.digest is not None:
            bundle = await self._queue.bundled(one.digest)
        elif one.attempts == 0 and self._crowded(lane):
            wait = lane.digest_at + DIGEST_EVERY_S - self._clock.monotonic()
            if wait > 0:
                return wait
            digest = f"digest-{self._clock.new_id(16)}"
            bundle = tuple(replace(item, digest=digest) for item in fresh[:DIGEST_ALERTS])
            await self._queue.bundle(tuple(item.id for item in bundle), digest)
            lane.digest_at = self._clock.monotonic()
        lane.requests += 1
        lane.in_flight.update(item.id for item in bundle)
        if one.attempts == 0:
            lane.sent_at.append(self._clock.monotonic())
        group.create_task(self._sending.deliver(lane, bundle))
        return LOOK_AGAIN_S

    def _crowded(self, lane: Lane) -> bool:
        since = self._clock.monotonic() - DIGEST_WINDOW_S
        while lane.sent_at and lane.sent_at[0] < since:
            lane.sent_at.popleft()
        return len(lane.sent_at) >= DIGEST_ABOVE


def _wait_s(one: Delivery, now: float) -> float:
    """Seconds until a delivery is due; 0 where it is."""
    wait = one.next_at - now
    kept_back = one.attempts == 0 and one.next_at > one.created_at
    # Further off than any Retry-After: the wall clock jumped back, and it is due.
    return wait if 0 < wait <= (QUIET_MOST_S if kept_back else MAX_WAIT_S) else 0.0
