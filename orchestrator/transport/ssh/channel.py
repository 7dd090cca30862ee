"""One command on a connection: its bytes both ways, the tail of its stderr, its end."""

import asyncio
import contextlib

import asyncssh

from orchestrator.core.errors import Unreachable
from orchestrator.transport.running import Tail
from orchestrator.transport.ssh.packets import Packets

CLOSE_WITHIN_S = 2.0
_PACKET_BYTES = 32 * 1024
"""As much as sshd takes in one."""
_MOMENT_S = 0.001
"""sshd opens a full window for 96 KiB at a time: a moment later several of these go at once."""


class SshChannel:
    """A Channel (base.py) over asyncssh's own."""

    def __init__(self, child: "asyncssh.SSHClientProcess[bytes]", target: str) -> None:
        self._child, self._target = child, target
        self._packets = Packets(child.channel)
        child.channel.set_write_buffer_limits(0)  # what is written was taken by the window
        self._tail = Tail()
        self._draining = asyncio.create_task(self._drain_stderr())

    async def write(self, chunk: bytes) -> None:
        view = memoryview(chunk)
        try:
            # The first packet is always asyncssh's own: it sees whether the keys are due.
            sent = 0
            while sent < len(view):
                packed = self._packets.send(view[sent:]) if sent else 0
                if sent and not packed and self._packets.full:
                    await asyncio.sleep(_MOMENT_S)
                    packed = self._packets.send(view[sent:])
                if packed:
                    sent += packed
                else:
                    self._child.stdin.write(chunk[sent : sent + _PACKET_BYTES])
                    sent += _PACKET_BYTES
                await self._child.stdin.drain()
        except (OSError, asyncssh.Error) as exc:
            raise Unreachable(
                f"{self._target}: a command no longer reads its input.", target=self._target
            ) from exc

    async def close_stdin(self) -> None:
        with contextlib.suppress(OSError, asyncssh.Error):
            self._child.stdin.write_eof()

    async def read(self, size: int = 65536) -> bytes:
        try:
            return await self._child.stdout.read(size)
        except (OSError, asyncssh.Error) as exc:
            raise Unreachable(
                f"{self._target}: the connection was lost: {exc}.",
                target=self._target,
                remedy="It is opened anew by itself.",
            ) from exc

    def stderr_tail(self) -> str:
        return self._tail.text()

    async def wait(self) -> int | None:
        await self._child.wait_closed()
        await asyncio.gather(self._draining, return_exceptions=True)
        status = self._child.exit_status
        return status if status is not None and status >= 0 else None

    async def close(self) -> None:
        if not self._child.is_closing():
            with contextlib.suppress(OSError, asyncssh.Error):
                self._child.terminate()
        self._child.close()
        try:
            async with asyncio.timeout(CLOSE_WITHIN_S):
                await self._child.wait_closed()
        except TimeoutError:
            pass  # the link is dead; keepalive ends the connection
        finally:
            self._draining.cancel()

    async def _drain_stderr(self) -> None:
        with contextlib.suppress(OSError, asyncssh.Error):
            while chunk := await self._child.stderr.read(4096):
                self._tail.add(chunk)
