"""One message on its way to a sink, and what its answer means for the queue and for the sink.

Owns when a refused message is tried again. Which one is due, and when, is outbox.py's.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from orchestrator.clock import Clock
from orchestrator.core.errors import StoreError
from orchestrator.core.model import Delivery
from orchestrator.sinks.base import Lookup, Message, Outcome, Queue, Result, refused
from orchestrator.sinks.lane import Lane
from orchestrator.sinks.messages import covered, message_of

FIRST_RETRY_S = 1.0
LAST_RETRY_S = 60.0
STORE_PAUSE_S = 1.0

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """Takes messages to sinks."""

    queue: Queue
    clock: Clock
    lookup: Lookup
    cover: Callable[[str], str]
    """Takes the values of secrets out of a text that is to be sent."""

    async def deliver(self, lane: Lane, bundle: tuple[Delivery, ...]) -> None:
        """Send one delivery, or the digest of several, and keep what came of it."""
        ids = tuple(one.id for one in bundle)
        try:
            result = await self.sent(lane, message_of(bundle))
            await self._settle(lane, bundle, result)
        except StoreError as exc:
            # Nothing is lost: it stays pending, and the receiver knows it by its id.
            logger.warning("outbox.store_refused", extra={"reason": str(exc)})
            await self.clock.sleep(STORE_PAUSE_S)
        finally:
            lane.requests -= 1
            lane.in_flight.difference_update(ids)
            lane.wake.set()

    async def _settle(self, lane: Lane, bundle: tuple[Delivery, ...], result: Result) -> None:
        ids = tuple(one.id for one in bundle)
        self.learn(lane, result)
        now = self.clock.now()
        match result.outcome:
            case Outcome.TAKEN:
                await self.queue.delivered(ids, now)
            case Outcome.GONE:
                await self.queue.disable(lane.sink.name, result.text)
            case Outcome.REFUSED:
                attempts = max(one.attempts for one in bundle)
                delay = self.clock.jitter(min(LAST_RETRY_S, FIRST_RETRY_S * 2 ** min(attempts, 10)))
                delay = max(delay, result.retry_after_s or 0.0)
                await self.queue.failed(ids, result.text, now + delay)

    def learn(self, lane: Lane, result: Result) -> None:
        """What an answer says of its sink."""
        extra = {"sink": lane.sink.name, "text": result.text}
        match result.outcome:
            case Outcome.TAKEN:
                lane.error = lane.refused = None
                lane.taken_at = self.clock.now()
                logger.info("outbox.taken", extra=extra)
            case Outcome.GONE:
                lane.error = result.text
                lane.gone, lane.checked = lane.values(self.lookup), None
                logger.error("outbox.gone", extra=extra)
            case Outcome.REFUSED:
                lane.error, lane.refused = result.text, lane.values(self.lookup)
                if result.retry_after_s is not None:
                    lane.paused_until = self.clock.monotonic() + result.retry_after_s
                logger.warning("outbox.refused", extra=extra)

    async def sent(self, lane: Lane, message: Message) -> Result:
        """The sink's answer to a message; its own failures are answers too."""
        try:
            return await lane.sink.send(covered(message, self.cover), self.lookup)
        except Exception as exc:  # noqa: BLE001  the edge where a sink becomes a result
            # A sink that fails in a way of its own must not end the others. The text of the
            # error may hold an address, so that only its type is kept.
            return refused(f"the sink failed ({type(exc).__name__})")
