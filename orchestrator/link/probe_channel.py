"""One life of one probe: what is sent and read, frames to their reader, heartbeat.

Owns the deadline of every await on the probe, and the judgement that it is late or gone. Does
not reconnect (keeper.py), looks into no answer (calls.py) and knows nothing of watches (feeds.py).
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from orchestrator.clock import MOMENT_S, Clock
from orchestrator.core.errors import TargetError, Unreachable
from orchestrator.link.boot import Booted
from orchestrator.link.calls import Calls, Progress
from orchestrator.link.shapes import require_frame
from orchestrator.probe.frames import (
    MAX_FRAME_BYTES,
    PING_INTERVAL_S,
    BadFrame,
    Frame,
    decode,
    encode,
    raw_size,
)
from orchestrator.transport.base import Way

DEAD_AFTER_S = 15.0
"""Without a byte: three pings lost."""

_WAY_LATE_S = 2.5
"""A way that pings as often as we do was heard this long after its ping, or is cut."""
_WRITE_WITHIN_S = 30.0
_SLOWEST_BYTES_PER_S = 32 * 1024

FrameReader = Callable[[Frame], None]


class ProbeChannel:
    """A probe that said hello. `live()` has to run for anything else to come back."""

    def __init__(
        self,
        target: str,
        booted: Booted,
        clock: Clock,
        on_frame: FrameReader,
        way: Way | None = None,
    ) -> None:
        self._target, self._clock, self._on_frame = target, clock, on_frame
        self._way = way
        self._channel, self._lines = booted.channel, booted.lines
        self.hello = booted.hello
        self.seen_at = clock.now()
        self.late = False
        self.cut: TargetError | None = None
        """Why nothing comes through now, though the probe may live and be heard again."""
        self.on_late: Callable[[], None] = lambda: None
        """Called whenever `late` or `cut` changes: an answer to a ping is missing, or came."""
        self._pings = 0
        self._heard_at = clock.monotonic()
        self._over = False
        self._ponged = 0
        self._calls = Calls(target)
        self._writing = asyncio.Lock()
        self._doom: TargetError | None = None
        self._doomed = asyncio.Event()

    async def live(self) -> TargetError:
        """Read and ping until the probe is gone; what ended it is the result."""
        problem: TargetError = self._lost("was closed here")
        leave = self._way.on_change(self._way_changed) if self._way is not None else None
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._read())
                tasks.create_task(self._beat())
                tasks.create_task(self._fail_when_doomed())
        except* TargetError as group:
            first = group.exceptions[0]
            problem = first if isinstance(first, TargetError) else problem
        finally:
            self._over = True
            if leave is not None:
                leave()
            self._calls.lose(lambda op: self._lost(f"was lost while `{op}` ran"))
            await self._channel.close()
        return problem

    async def call(
        self,
        op: str,
        *,
        timeout_s: float = 30.0,
        on_progress: Progress | None = None,
        raw: bytes | None = None,
        **args: Any,
    ) -> Any:
        """Ask the probe for one op of frames.py and give back its value.

        `raw` are bytes that the op gets as `data`, of one frame's size or less. `timeout_s`
        counts from the call or from its newest progress. CallFailed where the op failed there;
        Unreachable where no answer came: it may have happened all the same.
        """
        if self.cut is not None:
            raise self.cut
        try:
            async with asyncio.timeout(timeout_s) as deadline:
                with self._calls.begun(op, deadline, timeout_s, on_progress) as (number, answer):
                    if self._over:
                        raise self._lost("is gone")
                    await self.send({"kind": "call", "id": number, "op": op, "args": args}, raw)
                    return await answer
        except TimeoutError as exc:
            raise self._lost(f"gave no answer to `{op}` within {timeout_s:g} s") from exc

    async def send(self, frame: Frame, raw: bytes | None = None) -> None:
        """Write one frame, and `raw` behind it; Unreachable where it is not taken in time.

        ValueError where one of them is larger than a frame may be.
        """
        behind = b"" if raw is None else raw
        line = encode(frame if raw is None else {**frame, "raw": len(raw)})
        size = len(line) + len(behind)
        if max(len(line), len(behind)) > MAX_FRAME_BYTES:
            raise ValueError(f"a frame of {size} bytes; at most {MAX_FRAME_BYTES}")
        within_s = _WRITE_WITHIN_S + size / _SLOWEST_BYTES_PER_S
        async with self._timely(within_s):
            await self._writing.acquire()
        # Who waits may be cancelled: half a frame would swallow those that come behind it.
        writing = asyncio.create_task(self._write(line, behind, within_s))
        writing.add_done_callback(_look_at)
        await asyncio.shield(writing)

    async def _write(self, line: bytes, behind: bytes, within_s: float) -> None:
        try:
            async with self._timely(within_s):
                await self._channel.write(line)
                if behind:
                    await self._channel.write(behind)
        finally:
            self._writing.release()

    @asynccontextmanager
    async def _timely(self, within_s: float) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(within_s):
                yield
        except TimeoutError as exc:
            self.drop(self._lost("takes no more bytes"))
            raise self._lost("takes no more bytes") from exc

    def drop(self, problem: TargetError) -> None:
        """End this life; `live()` comes back with the problem."""
        self._doom = self._doom or problem
        self._doomed.set()

    async def close(self) -> None:
        """Let go of the channel; the probe ends at the end of its input."""
        await self._channel.close()

    async def _fail_when_doomed(self) -> None:
        await self._doomed.wait()
        assert self._doom is not None
        raise self._doom

    async def _read(self) -> None:
        try:
            while (line := await self._lines.next()) is not None:
                frame = decode(line)
                require_frame(frame, len(line))
                if (size := raw_size(frame)) is not None:
                    await self._add_behind(frame, size)
                self.seen_at = self._clock.now()
                if self.cut is not None:
                    self._set_cut(None)
                self._take(frame)
        except BadFrame as exc:
            raise Unreachable(
                f"{self._target}: the probe sent what is no frame ({exc}); the link was dropped.",
                target=self._target,
                remedy="It is started anew; if this repeats, look at what else writes to stdout.",
            ) from exc
        tail = self._channel.stderr_tail().strip()
        raise self._lost(f"ended{': ' + tail if tail else ''}")

    async def _add_behind(self, frame: Frame, size: int) -> None:
        value = frame.get("value")
        if not isinstance(value, dict):
            raise BadFrame("bytes follow a frame without a value")
        value["data"] = await self._lines.behind(size)
        if len(value["data"]) < size:
            raise self._lost("ended in the middle of an answer")

    def _take(self, frame: Frame) -> None:
        match frame["kind"]:
            case "result":
                self._calls.settle(frame)
            case "progress":
                self._calls.progress(frame)
            case "pong":
                if frame.get("n") == self._pings:
                    self._ponged = self._pings
                    self._set_late(late=False)
            case _:
                self._on_frame(frame)

    async def _beat(self) -> None:
        heard, self._heard_at = self._lines.num_bytes, self._clock.monotonic()
        while True:
            pinged = not self._writing.locked()
            if pinged:
                self._pings += 1
                await self.send({"kind": "ping", "n": self._pings})
            await self._clock.rest(PING_INTERVAL_S)
            now = self._clock.monotonic()
            # A large frame on a slow way out keeps both sides silent; its own deadline counts.
            if self._lines.num_bytes != heard or self._writing.locked():
                heard, self._heard_at = self._lines.num_bytes, now
            # Each look comes at a moment, and a little late by another bit.
            if (silent_s := now - self._heard_at) >= DEAD_AFTER_S - MOMENT_S / 2:
                problem = self._lost(f"has been silent for {silent_s:.0f} s")
                if self._way is None or self._way.silent_s < PING_INTERVAL_S + _WAY_LATE_S:
                    raise problem
                self._set_cut(problem)
            if pinged and self._ponged != self._pings:
                self._set_late(late=True)

    def _way_changed(self) -> None:
        assert self._way is not None
        # What was silent behind a cut gets its time anew.
        self._heard_at = self._clock.monotonic()
        self._set_cut(self._way.problem)

    def _set_cut(self, problem: TargetError | None) -> None:
        """Whoever waits for an answer is told at once, and by a new probe's start only."""
        if problem is not None and self._calls.any:
            self.drop(problem)
        elif problem is not None or self.cut is not None:
            self.cut = problem
            self.on_late()

    def _set_late(self, *, late: bool) -> None:
        if self.late != late:
            self.late = late
            self.on_late()

    def _lost(self, how: str) -> Unreachable:
        return Unreachable(
            f"{self._target}: the probe {how}.",
            target=self._target,
            remedy="The run there goes on without us; the link is tried again by itself.",
        )


def _look_at(writing: asyncio.Task[None]) -> None:
    """asyncio complains of a failure that nobody waited for any more."""
    if not writing.cancelled():
        writing.exception()
