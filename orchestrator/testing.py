"""Fakes that tests use in place of a target and of time; they pass the real ones' contract tests.

A FakeTransport's programs are coroutines, so that a probe that lies, stalls or dies can be
written in a few lines and runs at the same pace everywhere.
"""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Mapping

from orchestrator.core.command import Command
from orchestrator.core.errors import TargetError, Unreachable
from orchestrator.transport.base import Channel, Completed, Way
from orchestrator.transport.running import Tail, run_to_end

_PIPE_BYTES = 65536


class FakeStreams:
    """The three streams of a fake program, from its own side."""

    def __init__(self, command: Command) -> None:
        self.argv = command.argv
        self._stdin = asyncio.StreamReader(limit=_PIPE_BYTES)
        self._stdout = asyncio.StreamReader(limit=_PIPE_BYTES)
        self._stderr = Tail()

    async def read(self, size: int = 65536) -> bytes:
        """Next bytes of stdin; empty at its end."""
        return await self._stdin.read(size)

    async def read_line(self) -> bytes:
        """Next line of stdin with its end; empty at the end of stdin."""
        return await self._stdin.readline()

    def write(self, chunk: bytes) -> None:
        """Print to stdout."""
        self._stdout.feed_data(chunk)

    def write_error(self, chunk: bytes) -> None:
        """Print to stderr."""
        self._stderr.add(chunk)


FakeProgram = Callable[[FakeStreams], Awaitable[int | None]]
"""Its result is its exit status; None for an end by a signal."""


class FakeTransport:
    """A target on which programs are coroutines, by their name or as `default`."""

    def __init__(
        self,
        target: str,
        programs: Mapping[str, FakeProgram],
        *,
        default: FakeProgram | None = None,
    ) -> None:
        self.target = target
        self.opened: list[Command] = []
        self.problem: TargetError | None = None
        """Raised by whatever is opened, while it is set."""
        self.way: Way | None = None
        self.back = asyncio.Event()
        """Set when the host can be reached again; cleared by the next attempt."""
        self._programs, self._default = dict(programs), default
        self._channels: list[_FakeChannel] = []

    async def open(self, command: Command, *, bulk: bool = False, lasting: bool = False) -> Channel:
        """Start a program."""
        del bulk, lasting
        self.opened.append(command)
        self.back.clear()
        if self.problem is not None:
            raise self.problem
        name = command.argv[0]
        program = self._programs.get(name) if isinstance(name, str) else None
        channel = _FakeChannel(self.target, command, program or self._default or _not_found)
        self._channels.append(channel)
        return channel

    async def run(
        self, command: Command, *, stdin: bytes = b"", timeout_s: float = 30.0
    ) -> Completed:
        """Run a program to its end."""
        channel = await self.open(command)
        return await run_to_end(channel, stdin=stdin, timeout_s=timeout_s, target=self.target)

    async def answers_again(self) -> None:
        """Until `back` is set."""
        await self.back.wait()

    async def close(self) -> None:
        """End every program now, as when the connection dies."""
        for channel in self._channels:
            await channel.close()


class _FakeChannel:
    def __init__(self, target: str, command: Command, program: FakeProgram) -> None:
        self._target = target
        self._streams = FakeStreams(command)
        self._running = asyncio.ensure_future(self._run(program))

    async def _run(self, program: FakeProgram) -> int | None:
        try:
            return await program(self._streams)
        finally:
            self._streams._stdout.feed_eof()

    async def write(self, chunk: bytes) -> None:
        if self._running.done():
            raise Unreachable(
                f"{self._target}: a command no longer reads its input.", target=self._target
            )
        self._streams._stdin.feed_data(chunk)
        await asyncio.sleep(0)

    async def close_stdin(self) -> None:
        self._streams._stdin.feed_eof()

    async def read(self, size: int = 65536) -> bytes:
        return await self._streams._stdout.read(size)

    def stderr_tail(self) -> str:
        return self._streams._stderr.text()

    async def wait(self) -> int | None:
        await asyncio.wait({self._running})
        return None if self._running.cancelled() else self._running.result()

    async def close(self) -> None:
        self._running.cancel()
        await asyncio.wait({self._running})


async def _not_found(streams: FakeStreams) -> int:
    streams.write_error(f"sh: {streams.argv[0]!r}: not found\n".encode())
    return 127


class ManualClock:
    """Time that stands still until `advance`; jitter adds nothing, ids count up."""

    def __init__(self, now: float = 1_800_000_000.0) -> None:
        self._now = now
        self._monotonic = 0.0
        self._ids = itertools.count(1)
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []

    def now(self) -> float:
        """Unix seconds."""
        return self._now

    def monotonic(self) -> float:
        """Seconds advanced since it was made."""
        return self._monotonic

    async def sleep(self, seconds: float) -> None:
        """Wait until time was advanced this far."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        sleeper = (self._monotonic + seconds, woken)
        self._sleepers.append(sleeper)
        try:
            await woken
        finally:
            if sleeper in self._sleepers:
                self._sleepers.remove(sleeper)

    async def rest(self, seconds: float) -> None:
        """As `sleep`."""
        await self.sleep(seconds)

    def jitter(self, seconds: float) -> float:
        """`seconds`, exactly."""
        return seconds

    def new_id(self, length: int = 8) -> str:
        """1, 2, 3, ... with leading zeros."""
        return str(next(self._ids)).zfill(length)

    async def advance(self, seconds: float) -> None:
        """Let time pass; whoever sleeps wakes at its own moment, and acts before time goes on."""
        # Whoever is about to sleep begins before time passes, not after.
        await self._let_others_act()
        end = self._monotonic + seconds
        while due := [at for at, woken in self._sleepers if at <= end and not woken.done()]:
            self._pass(min(due) - self._monotonic)
            for at, woken in list(self._sleepers):
                if at <= self._monotonic and not woken.done():
                    woken.set_result(None)
            await self._let_others_act()
        self._pass(end - self._monotonic)
        await self._let_others_act()

    def _pass(self, seconds: float) -> None:
        self._now += seconds
        self._monotonic += seconds

    async def _let_others_act(self) -> None:
        for _ in range(200):
            await asyncio.sleep(0)
