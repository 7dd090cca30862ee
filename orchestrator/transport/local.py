"""This machine as a target: the same commands, as children of the daemon.

Owns the environment that they inherit: what a login needs and what a package installer reads,
never all of the daemon's, which holds secrets.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping

from orchestrator.core.command import Command, shell_line
from orchestrator.core.errors import Unreachable
from orchestrator.transport.base import Channel, Completed
from orchestrator.transport.running import Tail, run_to_end

_NAMES = frozenset(
    {
        *("HOME", "USER", "LOGNAME", "SHELL", "PATH", "LANG", "LANGUAGE", "TZ", "TMPDIR"),
        *("TMUX_TMPDIR", "LD_LIBRARY_PATH", "DBUS_SESSION_BUS_ADDRESS"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE"),
        *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"),
        *("http_proxy", "https_proxy", "no_proxy", "all_proxy"),
    }
)
_PREFIXES = ("LC_", "XDG_", "PIP_", "UV_", "CUDA_", "NVIDIA_")
_GRACE_S = 2.0


def inherited(environ: Mapping[str, str]) -> dict[str, str]:
    """What of the daemon's environment a local command sees."""
    return {
        name: text for name, text in environ.items() if name in _NAMES or name.startswith(_PREFIXES)
    }


class LocalTransport:
    """Runs commands on this machine; they are read by /bin/sh as a remote host would."""

    def __init__(self, target: str) -> None:
        self._target = target
        self.way = None

    async def open(self, command: Command, *, bulk: bool = False, lasting: bool = False) -> Channel:
        """Start a command; the words change nothing here."""
        del bulk, lasting
        try:
            child = await asyncio.create_subprocess_exec(
                *("/bin/sh", "-c", shell_line(command)),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=inherited(os.environ),
                start_new_session=True,
            )
        except OSError as exc:
            raise Unreachable(
                f"{self._target}: this machine starts no command: {exc}.",
                target=self._target,
                remedy="Look at its limits of memory, tasks and open files.",
            ) from exc
        return _LocalChannel(child, self._target)

    async def run(
        self, command: Command, *, stdin: bytes = b"", timeout_s: float = 30.0
    ) -> Completed:
        """Run a command to its end."""
        channel = await self.open(command)
        return await run_to_end(channel, stdin=stdin, timeout_s=timeout_s, target=self._target)

    async def answers_again(self) -> None:
        """Never: this machine is always here."""
        await asyncio.Event().wait()

    async def close(self) -> None:
        """Nothing is held between commands."""


class _LocalChannel:
    def __init__(self, child: asyncio.subprocess.Process, target: str) -> None:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stderr is not None
        self._child, self._target = child, target
        self._stdin, self._stdout, self._stderr = child.stdin, child.stdout, child.stderr
        self._tail = Tail()
        self._draining = asyncio.create_task(self._drain_stderr())

    async def write(self, chunk: bytes) -> None:
        try:
            self._stdin.write(chunk)
            await self._stdin.drain()
        except (OSError, RuntimeError) as exc:
            raise Unreachable(
                f"{self._target}: a command no longer reads its input.", target=self._target
            ) from exc

    async def close_stdin(self) -> None:
        self._stdin.close()

    async def read(self, size: int = 65536) -> bytes:
        return await self._stdout.read(size)

    def stderr_tail(self) -> str:
        return self._tail.text()

    async def wait(self) -> int | None:
        status = await self._child.wait()
        with contextlib.suppress(TimeoutError):
            # A daemon started by the command may hold stderr open for ever.
            await asyncio.wait_for(asyncio.shield(self._draining), timeout=0.5)
        return status if status >= 0 else None

    async def close(self) -> None:
        self._stdin.close()
        try:
            for ask in (None, signal.SIGTERM, signal.SIGKILL):
                if await self._ended_after(ask):
                    break
        finally:
            if self._child.returncode is None:
                self._signal_group(signal.SIGKILL)
            self._draining.cancel()
            # A grandchild may hold the pipes' other ends for ever; asyncio would wait for it.
            self._child._transport.close()  # type: ignore[attr-defined]  # no public way

    async def _ended_after(self, ask: signal.Signals | None) -> bool:
        if ask is not None:
            self._signal_group(ask)
        try:
            await asyncio.wait_for(self._child.wait(), timeout=_GRACE_S)
        except TimeoutError:
            return False
        return True

    def _signal_group(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._child.pid, number)

    async def _drain_stderr(self) -> None:
        while chunk := await self._stderr.read(4096):
            self._tail.add(chunk)
