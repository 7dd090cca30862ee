"""A probe whose every frame is the test's own: what an honest one would never do included."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from orchestrator.core.model import Host, LinkState, Target
from orchestrator.link.link import Link
from orchestrator.link.package import build
from orchestrator.probe.frames import VERSION, Frame, decode, encode, pack
from orchestrator.testing import FakeStreams, FakeTransport, ManualClock

TARGET = Target(name="ct200", host=Host(name="pve1"), runtime="pct", container="200")
PACKAGE = build({"orchestrator/probe/__main__.py": b"pass\n"})
HELLO: Frame = {"kind": "hello", "v": VERSION, "pid": 7}

Answer = Callable[["FakeProbe", Frame], Awaitable[Any]]


@dataclass
class FakeProbe:
    """One life of a scripted probe; `calls` are what it was asked."""

    streams: FakeStreams
    calls: list[Frame] = field(default_factory=list)
    acks: list[Frame] = field(default_factory=list)
    deaf: bool = False
    """Pings are not answered."""

    def send(self, **frame: Any) -> None:
        """Send one frame."""
        self.streams.write(encode(frame))

    def send_bytes(self, offset: int, chunk: bytes, *, stream: str = "log") -> None:
        """Send bytes of the watch `w`."""
        self.send(kind="bytes", watch="w", stream=stream, offset=offset, data=pack(chunk), t=1.0)

    def result(self, call: Frame, value: Any) -> None:
        """Answer a call."""
        self.send(kind="result", id=call["id"], value=value)

    def args_of(self, op: str) -> list[Frame]:
        """What the op was called with, each time."""
        return [call["args"] for call in self.calls if call["op"] == op]


class FakeTarget:
    """A target on which each start of a probe runs a script of the test.

    `script` is called with each new probe once it has said hello; when it returns, the probe
    serves: it answers every call with `answers[op]`, or {}.
    """

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.transport = FakeTransport("ct200", {}, default=self._start)
        self.probes: list[FakeProbe] = []
        self.script: Callable[[FakeProbe], Awaitable[None]] | None = None
        self.answers: dict[str, Any] = {}
        self.before_hello = b"\norch have\n"
        self.hello: Frame = HELLO
        self.pushed: list[bytes] = []

    def link(self) -> Link:
        """A link to it."""
        return Link(TARGET, self.transport, self.clock, "key", package=PACKAGE)

    @property
    def probe(self) -> FakeProbe:
        """The newest probe."""
        return self.probes[-1]

    async def lose_probe(self, link: Link) -> None:
        """Kill the newest probe and wait until the link has another one."""
        before = len(self.probes)
        await self.transport.close()
        await until(lambda: link.state is LinkState.UNREACHABLE)
        link.poke()
        await until(lambda: link.state is LinkState.CONNECTED)
        assert len(self.probes) == before + 1

    async def _start(self, streams: FakeStreams) -> int:
        streams.write(self.before_hello)
        probe = FakeProbe(streams)
        self.probes.append(probe)
        streams.write(encode(self.hello))
        if self.script is not None:
            await self.script(probe)
        while line := await streams.read_line():
            self._serve(probe, decode(line))
        return 0

    def _serve(self, probe: FakeProbe, frame: Frame) -> None:
        match frame["kind"]:
            case "ping" if not probe.deaf:
                probe.send(kind="pong", n=frame["n"])
            case "ack":
                probe.acks.append(frame)
            case "call":
                probe.calls.append(frame)
                answer = self.answers.get(frame["op"], {})
                if callable(answer):
                    answer(probe, frame)
                else:
                    probe.result(frame, answer)
            case _:
                pass


async def settle() -> None:
    """Let everything that can act without time passing act."""
    for _ in range(200):
        await asyncio.sleep(0)


async def until(true: Callable[[], bool], *, deadline_s: float = 30.0) -> None:
    """Wait until something has become true."""
    async with asyncio.timeout(deadline_s):
        while not true():
            await asyncio.sleep(0.01)
