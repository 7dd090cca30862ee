"""One command on a connection: its bytes both ways, the tail of its stderr, its end."""

import asyncio
import contextlib

import asyncssh

from orchestrator.core.errors import Unreachable
from orchestrator.transport.running import Tail

CLOSE_WITHIN_S = 2.0
_WRITE_BYTES = 128 * 1024


class SshChannel:
    """A Channel (base.py) over asyncssh's own."""

    def __init__(self, child: "asyncssh.SSHClientProcess[bytes]", target: str) -> None:
        self._child, self._target = child, target
        self._tail = Tail()
        self._draining = asyncio.create_task(self._drain_stderr())

    async def write(self, chunk: bytes) -> None:
        try:
            # asyncssh copies all that it has not sent yet for every packet that it sends.
            for at in range(0, len(chunk), _WRITE_BYTES):
                self._child.stdin.write(chunk[at : at + _WRITE_BYTES])
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
