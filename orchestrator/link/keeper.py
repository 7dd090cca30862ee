"""A probe on one target, whatever ends it: started, lived with, started anew, with pauses between.

Owns which probe is the live one and when the next is tried. What a new one has to be told is
subscribed.py's, and what is asked of it link.py's.
"""

import asyncio
import logging

from orchestrator.clock import Clock
from orchestrator.core.errors import TargetError, Unreachable
from orchestrator.link.boot import Patience
from orchestrator.link.standing import Standing
from orchestrator.link.starting import Starter
from orchestrator.link.subscribed import Life, Subscribed
from orchestrator.probe.frames import Frame
from orchestrator.transport.base import Transport

BACKOFF_FIRST_S = 0.5
BACKOFF_MOST_S = 15.0
"""Nobody tells of a container that is started again; the host itself is knocked at (door.py)."""
_STEADY_S = 2.0
"""A probe that lived this long was no failed attempt: the back-off starts over. With ten seconds,
faults that came one after the other each waited as long as a host that is dead."""

logger = logging.getLogger(__name__)


class Keeper:
    """The probes of one link, one after the other. Construct it anywhere; `begin` it in a loop."""

    def __init__(
        self,
        target: str,
        transport: Transport,
        clock: Clock,
        starter: Starter,
        subscribed: Subscribed,
        standing: Standing,
    ) -> None:
        self._target, self._transport, self._clock = target, transport, clock
        self._starter, self._subscribed, self._standing = starter, subscribed, standing
        self.probe: Life | None = None
        """The live one; what it is worth is the standing's to say."""
        self.hello: Frame | None = None
        """The newest probe's first frame; None where there was none yet."""
        self._seen_at: float | None = None
        self._failures = 0
        """Attempts in a row that came to no probe."""
        self._hello_at = float("inf")
        """When the newest attempt came to one, on the monotonic clock."""
        self._settled = asyncio.Event()
        self._judged = asyncio.Event()
        self._poked = asyncio.Event()
        self._keeping: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Begin to keep one, and wait for nothing."""
        if self._keeping is None:
            self._keeping = asyncio.create_task(self._keep(), name=f"link {self._target}")
            self._keeping.add_done_callback(self._ended)

    async def close(self) -> None:
        """End the probe."""
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.gather(self._keeping, return_exceptions=True)
            self._keeping = None

    def poke(self) -> None:
        """Try at once, whatever the back-off says; nothing happens where a probe is heard."""
        if self.probe is None:
            self._settled.clear()
            self._poked.set()
        elif self.probe.cut is not None and (way := self._transport.way) and way.poke():
            self._settled.clear()

    @property
    def seen_at(self) -> float | None:
        """When a probe last sent a frame, unix seconds; None where none ever did."""
        return self.probe.seen_at if self.probe is not None else self._seen_at

    async def connected(self) -> Life:
        """The live probe, or that of the attempt that is being made; else why there is none."""
        if self._keeping is None:
            raise Unreachable(f"{self._target}: the link is closed.", target=self._target)
        await self._settled.wait()
        if self.probe is None or self.probe.cut is not None:
            raise self._standing.problem or Unreachable(
                f"{self._target}: the link was closed.", target=self._target
            )
        return self.probe

    async def _keep(self) -> None:
        delay_s = BACKOFF_FIRST_S
        while True:
            self._hello_at = float("inf")
            problem = await self._one_life()
            if self._clock.monotonic() - self._hello_at >= _STEADY_S:
                delay_s = BACKOFF_FIRST_S
            self._standing.lose(problem)
            self._settled.set()
            met = await self._pause(self._clock.jitter(delay_s))
            delay_s = BACKOFF_FIRST_S if met else min(2 * delay_s, BACKOFF_MOST_S)

    async def _one_life(self) -> TargetError:
        """Start a probe and live with it; what ended it, or kept it from starting."""
        try:
            probe = await self._begin_life()
        except TargetError as exc:
            self._failures += 1
            return exc
        self._failures, self._hello_at = 0, self._clock.monotonic()
        living = asyncio.create_task(probe.live(), name=f"probe {self._target}")
        try:
            probe.on_late = lambda: self._judge(probe)
            self.probe, self.hello = probe, probe.hello
            self._subscribed.renew()
            self._judge(probe)
            return await self._live(probe, living)
        finally:
            self.probe, self._seen_at = None, probe.seen_at
            self._settled.clear()
            living.cancel()
            await asyncio.gather(living, return_exceptions=True)

    async def _live(self, probe: Life, living: asyncio.Task[TargetError]) -> TargetError:
        """Until its end; whenever it can be reached it is told what it does not know yet."""
        living.add_done_callback(lambda _: self._judged.set())
        while not living.done():
            self._judged.clear()
            if probe.cut is None and self._subscribed.any_untold:
                try:
                    await self._subscribed.tell(probe)
                except Unreachable as exc:
                    if probe.cut is None:
                        probe.drop(exc)
            await self._judged.wait()
        return living.result()

    def _judge(self, probe: Life) -> None:
        """What the link to this probe is worth now; one that is cut may come back."""
        self._standing.judge(probe)
        self._settled.set()
        self._judged.set()

    async def _begin_life(self) -> Life:
        patience = Patience()
        if self.hello is not None:
            patience = patience.after(self._failures)
        return await self._starter.start(self._subscribed.accept, patience)

    async def _pause(self, seconds: float) -> bool:
        """Let a host that is there and refuses have its peace; whether an absent one is back."""
        self._poked.clear()
        back = asyncio.create_task(self._transport.answers_again())
        waits = {
            asyncio.create_task(self._clock.sleep(seconds)),
            asyncio.create_task(self._poked.wait()),
            back,
        }
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)
        self._settled.clear()
        return not back.cancelled() and back.exception() is None

    def _ended(self, keeping: asyncio.Task[None]) -> None:
        if not keeping.cancelled() and (exc := keeping.exception()) is not None:
            logger.critical("link.keeper_failed", extra={"target": self._target}, exc_info=exc)
        self._standing.end()
        self._settled.set()
