"""Commands of a host's targets over one way in, which outlives the connection that it came over.

Owns the way: joined again when it was cut, for as long as the holder on the host (probe/trunk.py)
is there. A command that is opened here ends when it ends, is closed, or its holder is gone.
"""

import asyncio
import secrets
import struct
from collections.abc import Awaitable, Callable
from functools import partial

from orchestrator.clock import SystemClock
from orchestrator.core.errors import AuthRefused, HostKeyRefused, TargetError, Unreachable
from orchestrator.probe import trunk_wire as wire
from orchestrator.transport.base import Channel
from orchestrator.transport.trunk_channel import TrunkChannel
from orchestrator.transport.trunk_holder import HolderGone, NoTrunk, reach_holder, way_lost

BACKOFF_FIRST_S = 0.5
BACKOFF_MOST_S = 15.0
PING_EVERY_S = 5.0
SILENT_S = 25.0
"""More than ssh's own keepalive takes to find a dead connection."""
RESUME_WITHIN_S = 15.0
"""A holder that was let in to and says nothing is stuck, and is given up."""
_STEADY_S = 5.0
"""A way that is lost sooner is joined again after a pause."""
_IDLE_S = 60.0
"""Where no target of the host is left, it is let go."""
_BYE_WITHIN_S = 2.0


class Trunk:
    """The trunk of one host. Construct it inside the running loop; it begins with its first use.

    `start` runs a line on the host over some connection; `answers_again` is Door's.
    """

    def __init__(
        self,
        host: str,
        start: Callable[[bytes], Awaitable[Channel]],
        answers_again: Callable[[], Awaitable[object]],
    ) -> None:
        self._host, self._start, self._answers_again = host, start, answers_again
        self.problem: TargetError | None = None
        """Why nothing comes through; None while it does, as far as is known."""
        self.usable = True
        self._channels: dict[int, TrunkChannel] = {}
        self._closed: list[int] = []
        self._number = 0
        self._readers: list[Callable[[], None]] = []
        self._clock = SystemClock()
        self._way: Channel | None = None
        self._heard_at = 0.0
        self._ping_due = self._leaving = False
        self._settled = asyncio.Event()
        self._stirred = asyncio.Event()
        self._poked = asyncio.Event()
        self._pausing = False
        self._keeper: asyncio.Task[None] | None = None

    async def open(self, line: bytes, target: str) -> Channel:
        """Run a command line of a target; NoTrunk where this host cannot, else TargetError."""
        await self._joined()
        self._number += 1
        channel = TrunkChannel(self._number, line, target, self.stir, self._let_go)
        self._channels[self._number] = channel
        self.stir()
        return channel

    @property
    def silent_s(self) -> float:
        """Seconds since the holder was heard."""
        return asyncio.get_running_loop().time() - self._heard_at

    def poke(self) -> bool:
        """Join at once where the next attempt waits for its time; whether one is made."""
        self._poked.set()
        return self._pausing

    def on_change(self, reader: Callable[[], None]) -> Callable[[], None]:
        """Call `reader` when an attempt to join has failed or come to its end, until it is over."""
        self._readers.append(reader)
        return partial(self._readers.remove, reader)

    def stir(self) -> None:
        """A channel has something to send."""
        self._stirred.set()

    async def close(self) -> None:
        """End the holder and all that it holds."""
        way, keeper = self._way, self._keeper
        if keeper is None:
            return
        if way is not None:
            self._leaving = True
            self.stir()
            try:
                async with asyncio.timeout(_BYE_WITHIN_S):
                    await way.wait()
            except (TimeoutError, TargetError):
                pass  # it ends by itself in a while
        keeper.cancel()
        await asyncio.gather(keeper, return_exceptions=True)

    def _let_go(self, number: int) -> None:
        if self._channels.pop(number, None) is not None:
            self._closed.append(number)
            self.stir()

    # --- joined, cut, and joined again -----------------------------------------------------------

    async def _joined(self) -> None:
        """Wait for the attempt that is being made; all that wait share its failure."""
        if self._keeper is None or self._keeper.done():
            self._settled.clear()
            self._keeper = asyncio.create_task(self._keep(), name=f"trunk {self._host}")
        elif self.poke():
            self._settled.clear()
        keeper = self._keeper
        await self._settled.wait()
        if keeper.done() and not keeper.cancelled():
            keeper.result()  # a fault of ours is not to pass for a host that is away
        if not self.usable:
            raise NoTrunk
        if self._way is None:
            raise self.problem or self._lost("was closed")

    async def _keep(self) -> None:
        name, verb, delay_s = secrets.token_hex(8), "hold", BACKOFF_FIRST_S
        clock = asyncio.get_running_loop().time
        try:
            while True:
                try:
                    way, rest = await reach_holder(self._host, self._start, verb, name)
                except TargetError as exc:
                    self._tell(exc)
                    # A refusal is for a person to mend, and is then told by each target's link.
                    refused = isinstance(exc, AuthRefused | HostKeyRefused)
                    if verb == "hold" or refused or not self._channels:
                        return
                    delay_s = await self._pause(delay_s)
                    continue
                verb, joined_at = "join", clock()
                await self._serve(way, rest)
                if not self._channels:
                    return  # nobody needs it any more; who comes next begins another
                if clock() - joined_at >= _STEADY_S:
                    delay_s = BACKOFF_FIRST_S
                else:
                    delay_s = await self._pause(delay_s)
        except NoTrunk:
            # One that held before had no room for one more program: the next `hold` tells.
            self.usable = verb == "join"
            self.problem = self._lost("could not be taken again")
        except HolderGone:
            self.problem = self._lost("is gone")
        finally:
            channels, self._channels = self._channels, {}
            for channel in channels.values():
                channel.lose()
            self._settled.set()

    def _tell(self, problem: TargetError | None) -> None:
        self.problem = problem
        self._settled.set()
        for reader in list(self._readers):
            reader()

    async def _pause(self, seconds: float) -> float:
        """Seconds of the next one: twice as many; the first's where an absent host is back."""
        self._poked.clear()
        self._pausing = True
        again = asyncio.ensure_future(self._answers_again())
        poked = asyncio.ensure_future(self._poked.wait())
        try:
            await asyncio.wait({again, poked}, timeout=seconds, return_when="FIRST_COMPLETED")
        finally:
            self._pausing = False
            self._settled.clear()  # whoever comes now waits for the attempt that begins
            again.cancel()
            poked.cancel()
            await asyncio.gather(again, poked, return_exceptions=True)
        met = not again.cancelled() and again.exception() is None
        return BACKOFF_FIRST_S if met else min(2 * seconds, BACKOFF_MOST_S)

    # --- while it is joined ----------------------------------------------------------------------

    async def _serve(self, way: Channel, rest: bytes) -> None:
        """Carry bytes both ways until the way is cut; HolderGone where the holder is stuck."""
        self._heard_at = asyncio.get_running_loop().time()
        frames, broken = wire.Frames(), False
        try:
            await way.write(self._resume())
            try:
                async with asyncio.timeout(RESUME_WITHIN_S):
                    come = frames.take(rest)
                    while not come:
                        come = frames.take(await self._next(way))
            except TimeoutError as exc:
                raise HolderGone from exc
            self._resumed(come[0])
            self._way = way
            self._tell(None)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._read(way, frames, come[1:]))
                tasks.create_task(self._write(way))
                tasks.create_task(self._beat())
        except* TargetError:
            pass  # cut: it is joined again
        except* (wire.BadTrunk, struct.error, ValueError):
            broken = True
        finally:
            self._way = None
            self._settled.clear()
            await way.close()
        if broken:
            raise HolderGone

    def _resume(self) -> bytes:
        self._closed.clear()  # what is not named is closed
        marks = (
            wire.MARK.pack(number, one.out.mark(), one.err.mark())
            for number, one in self._channels.items()
        )
        return wire.frame(wire.RESUME, content=b"".join(marks))

    def _resumed(self, first: tuple[bytes, int, int, bytes]) -> None:
        kind, _, _, content = first
        if kind != wire.RESUME:
            raise wire.BadTrunk("it does not begin with its marks")
        marks = {number: typed for number, typed, _ in wire.MARK.iter_unpack(content)}
        for number, one in self._channels.items():
            one.resume(marks.get(number))

    async def _next(self, way: Channel) -> bytes:
        chunk = await way.read(wire.WIRE_BYTES)
        if not chunk:
            raise self._lost("was cut")
        self._heard_at = asyncio.get_running_loop().time()
        return chunk

    async def _read(
        self, way: Channel, frames: wire.Frames, come: list[tuple[bytes, int, int, bytes]]
    ) -> None:
        while True:
            for kind, number, offset, content in come:
                one = self._channels.get(number)
                if one is not None:
                    one.take(kind, offset, content)
            come = frames.take(await self._next(way))

    async def _write(self, way: Channel) -> None:
        while not self._leaving:
            self._stirred.clear()
            batch = self._batch()
            if batch:
                await way.write(batch)
            else:
                await self._stirred.wait()
        await way.write(wire.frame(wire.BYE))

    def _batch(self) -> bytes:
        """What all channels have to send, a part of each stream; and what was closed."""
        batch = bytearray()
        if self._ping_due:
            self._ping_due = False
            batch += wire.frame(wire.PING)
        for number in self._closed:
            batch += wire.frame(wire.CLOSE, number)
        self._closed.clear()
        for one in self._channels.values():
            batch += one.next_frames()
            if len(batch) >= wire.WIRE_BYTES:
                self._stirred.set()
                break
        return bytes(batch)

    async def _beat(self) -> None:
        idle_s = 0.0
        while True:
            self._ping_due = True
            self.stir()
            await self._clock.rest(PING_EVERY_S)
            if self.silent_s > SILENT_S:
                raise self._lost("is silent")
            idle_s = 0.0 if self._channels else idle_s + PING_EVERY_S
            if idle_s > _IDLE_S:
                raise self._lost("is not used")

    def _lost(self, how: str) -> Unreachable:
        return way_lost(self._host, how)
