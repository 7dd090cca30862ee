"""What a subscriber reads of a probe: a watch, every byte once and in order, or newest samples.

Owns the bounds of what waits for a subscriber. Sends nothing itself (link.py does).
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Mapping
from typing import Any, Protocol

from orchestrator.core.errors import TargetError
from orchestrator.probe.frames import CHUNK_BYTES, WINDOW_BYTES, BadFrame, Frame, unpack

_LATE_BYTES = 2 * WINDOW_BYTES
"""A probe keeps to WINDOW_BYTES for each of two streams; one that does not is cut off."""

ACK_BYTES = WINDOW_BYTES // 8
"""What is stored is told in steps of this size: an answer to each line costs both sides as much
again as the line."""

_MOST_FRAMES = 20_000
_SUFFIX = "_offset"


class Sender(Protocol):
    """The link, as a watch sees it."""

    async def acknowledge(self, watch: str, stream: str, offset: int) -> None:
        """Pass on what has been stored."""
        ...

    async def unwatch(self, watch: str) -> None:
        """End the watch on the probe."""
        ...


class _Queue:
    """Frames on their way to one subscriber; over once it failed or was closed."""

    def __init__(self) -> None:
        self._frames: deque[Frame] = deque()
        self._stirred = asyncio.Event()
        self._closed = False
        self._problem: TargetError | None = None

    def fail(self, problem: TargetError) -> None:
        """Let the subscriber have the problem after what is queued."""
        self._problem = problem
        self._stirred.set()

    def end(self) -> None:
        """Let the subscriber's loop end."""
        self._closed = True
        self._stirred.set()

    @property
    def over(self) -> bool:
        """Whether nothing more can come."""
        return False

    def _taken(self, frame: Frame) -> None:
        """A frame is about to be handed to the subscriber."""

    async def __aiter__(self) -> AsyncIterator[Frame]:
        async for frame in self.within(None):
            if frame is not None:
                yield frame

    async def within(self, quiet_s: float | None) -> AsyncIterator[Frame | None]:
        """The frames, and None once whenever `quiet_s` pass without one (None: never)."""
        quiet = False
        while not self._closed and not self.over:
            if self._frames:
                frame = self._frames.popleft()
                self._taken(frame)
                quiet = False
                yield frame
            elif self._problem is not None:
                raise self._problem
            elif await self._stirs(None if quiet else quiet_s):
                quiet = False
            elif not quiet:
                quiet = True
                yield None

    async def _stirs(self, within_s: float | None) -> bool:
        """Wait for news; False where there was none in time."""
        self._stirred.clear()
        # A timer is a tenth of the work that a task with a deadline is, for each line of a log.
        late = (
            asyncio.get_running_loop().call_later(within_s, self._stirred.set) if within_s else None
        )
        try:
            await self._stirred.wait()
        finally:
            if late is not None:
                late.cancel()
        return bool(self._frames) or self._closed or self._problem is not None


class Feed(_Queue):
    """Newest frames of some kinds, as `gpus` and `kernel`; where nobody reads, the oldest go."""

    def __init__(self, kinds: frozenset[str], most: int) -> None:
        super().__init__()
        self.kinds, self._most = kinds, most

    def accept(self, frame: Frame) -> None:
        """Take a frame of the probe."""
        self._frames.append(frame)
        if len(self._frames) > self._most:
            self._frames.popleft()
        self._stirred.set()


class Watch(_Queue):
    """One attempt's frames across reconnects: each `bytes` begins where the last one ended.

    Iterate for frames as frames.py has them, but with `data` as bytes, adjoining ones joined.
    A `gap` says in `next` where its stream goes on. `exit` or `gone` comes once, as the last.
    """

    def __init__(self, name: str, args: Mapping[str, Any], sender: Sender) -> None:
        super().__init__()
        self.name, self._args, self._sender = name, dict(args), sender
        self._handed = {
            key.removesuffix(_SUFFIX): int(offset)
            for key, offset in args.items()
            if key.endswith(_SUFFIX)
        }
        self._come = dict(self._handed)
        self._acked = dict(self._handed)
        self._waiting_bytes = 0
        self._over = False

    async def ack(self, stream: str, offset: int) -> None:
        """Say that all before `offset` is stored; the probe hears of it well before it waits."""
        if offset - self._acked[stream] >= ACK_BYTES:
            self._acked[stream] = offset
            await self._sender.acknowledge(self.name, stream, offset)

    async def close(self) -> None:
        """End the watch here and on the probe."""
        self.end()
        await self._sender.unwatch(self.name)

    @property
    def over(self) -> bool:
        """Whether the attempt's end has been handed out."""
        return self._over

    def restart(self) -> dict[str, Any]:
        """Forget what was not handed out; the args of the op `watch` for a fresh probe."""
        self._frames.clear()
        self._waiting_bytes = 0
        self._come = dict(self._handed)
        self._acked = dict(self._handed)
        offsets = {f"{stream}{_SUFFIX}": offset for stream, offset in self._handed.items()}
        return {**self._args, **offsets, "watch": self.name}

    def accept(self, frame: Frame) -> None:
        """Take a frame of the probe; BadFrame where it is out of order or too much."""
        match frame["kind"]:
            case "bytes":
                self._accept_bytes(frame)
            case "gap":
                self._come[self._stream(frame)] = _offset(frame, "next")
                self._frames.append(frame)
            case _:
                self._frames.append(frame)
        if len(self._frames) > _MOST_FRAMES or self._waiting_bytes > _LATE_BYTES:
            raise BadFrame(f"more frames of watch {self.name} than were acknowledged")
        self._stirred.set()

    def _accept_bytes(self, frame: Frame) -> None:
        stream, offset = self._stream(frame), _offset(frame, "offset")
        if not isinstance(frame.get("data"), str):
            raise BadFrame("`data` of a frame is no text")
        chunk = unpack(frame["data"])
        if self._come[stream] != offset:
            raise BadFrame(f"bytes of {stream} at {offset}, not at {self._come[stream]}")
        self._come[stream] += len(chunk)
        self._waiting_bytes += len(chunk)
        last = self._frames[-1] if self._frames else None
        joins = last is not None and last["kind"] == "bytes" and last["stream"] == stream
        if last is not None and joins and len(last["data"]) < CHUNK_BYTES:
            last["data"] += chunk
            last["t"] = frame.get("t")
        else:
            self._frames.append({**frame, "data": bytearray(chunk)})

    def _stream(self, frame: Frame) -> str:
        stream = frame.get("stream")
        if not isinstance(stream, str) or stream not in self._come:
            raise BadFrame(f"a frame of a stream that watch {self.name} has not")
        return stream

    def _taken(self, frame: Frame) -> None:
        match frame["kind"]:
            case "bytes":
                frame["data"] = bytes(frame["data"])
                self._waiting_bytes -= len(frame["data"])
                self._handed[frame["stream"]] = frame["offset"] + len(frame["data"])
            case "gap":
                self._handed[frame["stream"]] = frame["next"]
                self._acked[frame["stream"]] = min(self._acked[frame["stream"]], frame["next"])
            case "exit" | "gone":
                self._over = True
            case _:
                pass


def _offset(frame: Frame, key: str) -> int:
    offset = frame.get(key)
    if type(offset) is not int or not 0 <= offset < 1 << 62:
        raise BadFrame(f"`{key}` of a frame is no offset")
    return offset
