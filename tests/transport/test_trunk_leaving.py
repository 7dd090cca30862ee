"""How a trunk is let go of by a daemon that ends."""

import os
import signal

from orchestrator.probe import trunk_wire as wire
from orchestrator.transport.base import Channel
from tests.transport.test_trunk import Near


class Heard:
    """A way over another one, with all that was written to it."""

    def __init__(self, inner: Channel) -> None:
        self._inner = inner
        self.written: list[bytes] = []

    async def write(self, chunk: bytes) -> None:
        self.written.append(chunk)
        await self._inner.write(chunk)

    async def close_stdin(self) -> None:
        await self._inner.close_stdin()

    async def read(self, size: int = 65536) -> bytes:
        return await self._inner.read(size)

    def stderr_tail(self) -> str:
        return self._inner.stderr_tail()

    async def wait(self) -> int | None:
        return await self._inner.wait()

    async def close(self) -> None:
        await self._inner.close()


class HeardNear(Near):
    """This machine as a host, over a way that keeps what was written."""

    async def start(self, line: bytes) -> Channel:
        self.way = Heard(await super().start(line))
        return self.way


async def test_a_holder_that_is_slow_to_end_is_told_once() -> None:
    """A daemon says good-bye once and then waits: it kept a core busy for as long as it took."""
    near = HeardNear()
    holder = await near.holder()
    os.kill(holder, signal.SIGSTOP)
    try:
        await near.trunk.close()
    finally:
        os.kill(holder, signal.SIGCONT)
    assert b"".join(near.way.written).count(wire.frame(wire.BYE)) == 1
