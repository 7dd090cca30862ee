"""One probe on one target, kept: started, watched over, started anew, for ever.

Owns the state of the link (connected, degraded, unreachable) and what a new probe has to be told
so that nobody notices the change. A run on the target never depends on it.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from orchestrator.clock import Clock
from orchestrator.core.errors import TargetError, Unreachable
from orchestrator.core.model import LinkState, Target
from orchestrator.link.boot import Patience
from orchestrator.link.feeds import Feed, Watch
from orchestrator.link.package import ProbePackage
from orchestrator.link.probe_channel import CallFailed, ProbeChannel, Progress
from orchestrator.link.shell_probe import SHELL
from orchestrator.link.standing import Standing, StateReader
from orchestrator.link.starting import Starter, Token
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


class Link:
    """The way to one target's probe. Construct it anywhere; `start` it inside a running loop.

    `key` names the daemon on the target (letters, digits, `-_.`): a later link with the same
    key ends this one's probe, links with other keys live beside it. `token` is asked before each
    call and each new probe: the fencing token of the daemon's lease, or NotDriven raised.
    """

    def __init__(
        self,
        target: Target,
        transport: Transport,
        clock: Clock,
        key: str,
        *,
        package: ProbePackage | None = None,
        token: Token = lambda: 0,
    ) -> None:
        self.target = target
        self._standing = Standing(target.name)
        self._transport, self._clock, self._token = transport, clock, token
        self._starter = Starter(target, transport, clock, key, package=package, token=token)
        self._probe: Life | None = None
        self._seen_at: float | None = None
        self._hello: Frame | None = None
        self._failures = 0
        """Attempts in a row that came to no probe."""
        self._hello_at = float("inf")
        """When the newest attempt came to one, on the monotonic clock."""
        self._subscribed = Subscribed(target.name)
        self._settled = asyncio.Event()
        self._judged = asyncio.Event()
        self._poked = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None

    # --- life ------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Begin to keep the link; returns once it is connected.

        Raises the first attempt's TargetError; the link goes on trying until `close`.
        """
        self.begin()
        self.poke()
        await self._connected()

    def begin(self) -> None:
        """Begin to keep the link and wait for nothing: calls from now on wait for it."""
        if self._keeper is None:
            self._keeper = asyncio.create_task(self._keep(), name=f"link {self.target.name}")
            self._keeper.add_done_callback(self._keeper_ended)

    async def close(self) -> None:
        """End the probe and every subscription; the run on the target goes on."""
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
            self._keeper = None
        self._subscribed.end()

    def poke(self) -> None:
        """Try at once, whatever the back-off says; nothing happens on a link that is there."""
        if self._probe is None:
            self._settled.clear()
            self._poked.set()
        elif self._probe.cut is not None and (way := self._transport.way) and way.poke():
            self._settled.clear()

    @property
    def state(self) -> LinkState:
        """Whether the probe is heard."""
        return self._standing.state

    @property
    def problem(self) -> TargetError | None:
        """Why the link is unreachable; None while it is not, and before the first attempt."""
        return self._standing.problem

    @property
    def seen_at(self) -> float | None:
        """When the probe last sent a frame, unix seconds; None where it never did."""
        return self._probe.seen_at if self._probe is not None else self._seen_at

    @property
    def hello(self) -> Frame | None:
        """The newest probe's first frame; None where there was none yet."""
        return self._hello

    @property
    def watched(self) -> str:
        """`probe`, or `shell` where the target has no Python for one."""
        return SHELL if (self._hello or {}).get("probe") == SHELL else "probe"

    def on_state(self, reader: StateReader) -> Callable[[], None]:
        """Call `reader` with every new state, until the result is called."""
        return self._standing.on_state(reader)

    # --- what the probe is asked -----------------------------------------------------------------

    async def call(
        self,
        op: str,
        *,
        timeout_s: float = 30.0,
        on_progress: Progress | None = None,
        raw: bytes | None = None,
        **args: Any,
    ) -> Any:
        """Ask for one op of frames.py and give back its value.

        `raw` are bytes that the op gets as `data`. Where the link is down it is tried once more
        first. CallFailed where the op failed there; otherwise another TargetError, and it may
        have happened all the same.
        """
        self._token()
        self.poke()
        probe = await self._probe_within(op, timeout_s)
        return await probe.call(op, timeout_s=timeout_s, on_progress=on_progress, raw=raw, **args)

    async def keep(self, op: str, **args: Any) -> Any:
        """As `call`, and once more on every new probe: for `gpus` with its interval.

        Where the link is down this fails at once and does not hasten the next attempt, so that
        a loop around it may turn quickly; the new probe is asked all the same.
        """
        self._subscribed.keep(op, args)
        probe = await self._probe_within(op, 30.0)
        kept = await probe.call(op, **args)
        self._subscribed.told(op)
        return kept

    async def _probe_within(self, op: str, timeout_s: float) -> Life:
        try:
            async with asyncio.timeout(timeout_s):
                return await self._connected()
        except TimeoutError as exc:
            raise Unreachable(
                f"{self.target.name}: no connection for `{op}` within {timeout_s:g} s.",
                target=self.target.name,
                remedy="It is tried again by itself; look at `orch doctor`.",
            ) from exc

    async def watch(self, name: str, **args: Any) -> Watch:
        """Follow an attempt; `args` are those of the op `watch`, offsets to begin at included.

        On a link that is down it begins when the link is back. CallFailed where there is no
        such attempt.
        """
        watch = Watch(name, args, self)
        self._subscribed.watch(watch)
        probe = self._probe
        if probe is not None and probe.cut is None:
            self._subscribed.told(watch)  # by this call: told twice, it would be followed twice
            try:
                await probe.call("watch", **watch.restart())
            except CallFailed:
                self._subscribed.drop(name)
                raise
            except Unreachable:
                if self._probe is probe:
                    self._subscribed.untell(watch)
        return watch

    def listen(self, *kinds: str, most: int = 64) -> Feed:
        """Frames of these kinds that belong to no watch, the newest `most` of them."""
        feed = Feed(frozenset(kinds), most)
        self._subscribed.listen(feed)
        return feed

    def unlisten(self, feed: Feed) -> None:
        """End a feed."""
        self._subscribed.unlisten(feed)

    def bulk(self) -> AbstractAsyncContextManager[ProbeChannel]:
        """A probe of its own, over a connection of its own, for calls that move many bytes.

        It does not reconnect: a call on it fails with Unreachable, and is to be begun again.
        """
        return self._starter.bulk()

    # --- for Watch -------------------------------------------------------------------------------

    async def acknowledge(self, watch: str, stream: str, offset: int) -> None:
        """Pass on what a subscriber has stored; a probe that is gone needs no telling."""
        await self._tell({"kind": "ack", "watch": watch, "stream": stream, "offset": offset})

    async def unwatch(self, watch: str) -> None:
        """Forget a watch, here and there."""
        self._subscribed.drop(watch)
        await self._tell({"kind": "call", "id": 0, "op": "unwatch", "args": {"watch": watch}})

    async def _tell(self, frame: Frame) -> None:
        if self._probe is None:
            return
        try:
            await self._probe.send(frame)
        except Unreachable:
            pass  # the keeper sees the same, and starts a new probe

    # --- the keeper ------------------------------------------------------------------------------

    async def _connected(self) -> Life:
        """The live probe, or that of the attempt that is being made; else why there is none."""
        if self._keeper is None:
            raise Unreachable(f"{self.target.name}: the link is closed.", target=self.target.name)
        await self._settled.wait()
        if self._probe is None or self._probe.cut is not None:
            raise self.problem or Unreachable(
                f"{self.target.name}: the link was closed.", target=self.target.name
            )
        return self._probe

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
        living = asyncio.create_task(probe.live(), name=f"probe {self.target.name}")
        try:
            probe.on_late = lambda: self._judge(probe)
            self._probe, self._hello = probe, probe.hello
            self._subscribed.renew()
            self._judge(probe)
            return await self._live(probe, living)
        finally:
            self._probe, self._seen_at = None, probe.seen_at
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
        if self._hello is not None:
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

    def _keeper_ended(self, keeper: asyncio.Task[None]) -> None:
        if not keeper.cancelled() and (exc := keeper.exception()) is not None:
            logger.critical("link.keeper_failed", extra={"target": self.target.name}, exc_info=exc)
        self._standing.end()
        self._settled.set()
