"""One probe on one target: what is asked of it and followed there, whichever probe it is just then.

Owns the calls and subscriptions of a target; the probe itself is kept by keeper.py, so that nobody
notices a change of it. A run on the target never depends on it.
"""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from orchestrator.clock import Clock
from orchestrator.core.errors import TargetError, Unreachable
from orchestrator.core.model import LinkState, Target
from orchestrator.link.calls import CallFailed, Progress
from orchestrator.link.feeds import Feed, Watch
from orchestrator.link.keeper import Keeper
from orchestrator.link.package import ProbePackage
from orchestrator.link.probe_channel import ProbeChannel
from orchestrator.link.shell_probe import SHELL
from orchestrator.link.standing import Standing, StateReader
from orchestrator.link.starting import Starter, Token
from orchestrator.link.subscribed import Life, Subscribed
from orchestrator.probe.frames import Frame
from orchestrator.transport.base import Transport


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
        self.closed = asyncio.Event()
        """Set once nothing more will be heard over it."""
        self._standing = Standing(target.name)
        self._token = token
        self._starter = Starter(target, transport, clock, key, package=package, token=token)
        self._subscribed = Subscribed(target.name)
        self._keeper = Keeper(
            target.name, transport, clock, self._starter, self._subscribed, self._standing
        )

    # --- life ------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Begin to keep the link; returns once it is connected.

        Raises the first attempt's TargetError; the link goes on trying until `close`.
        """
        self.begin()
        self.poke()
        await self._keeper.connected()

    def begin(self) -> None:
        """Begin to keep the link and wait for nothing: calls from now on wait for it."""
        self._keeper.begin()

    async def close(self) -> None:
        """End the probe and every subscription; the run on the target goes on."""
        self.closed.set()
        await self._keeper.close()
        self._subscribed.end()

    def poke(self) -> None:
        """Try at once, whatever the back-off says; nothing happens on a link that is there."""
        self._keeper.poke()

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
        return self._keeper.seen_at

    @property
    def hello(self) -> Frame | None:
        """The newest probe's first frame; None where there was none yet."""
        return self._keeper.hello

    @property
    def watched(self) -> str:
        """`probe`, or `shell` where the target has no Python for one."""
        return SHELL if (self.hello or {}).get("probe") == SHELL else "probe"

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
                return await self._keeper.connected()
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
        probe = self._keeper.probe
        if probe is not None and probe.cut is None:
            self._subscribed.told(watch)  # by this call: told twice, it would be followed twice
            try:
                await probe.call("watch", **watch.restart())
            except CallFailed:
                self._subscribed.drop(name)
                raise
            except Unreachable:
                if self._keeper.probe is probe:
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
        probe = self._keeper.probe
        if probe is None:
            return
        try:
            await probe.send(frame)
        except Unreachable:
            pass  # the keeper sees the same, and starts a new probe
