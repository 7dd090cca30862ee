"""Daemons from a warm process: a fork has everything imported, so that one starts in no time.

Run as a program it reads one JSON line for each daemon (config, env, fault), forks it, and prints
its PID. Owns no judgement: who asks looks after the daemons.
"""

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO

from orchestrator.daemon import main as daemon
from tests.faults.points import Fault, arm
from tests.nursery.warm import warm_up


def serve() -> None:
    """Fork for every order until the end of stdin; the children are reaped by the kernel."""
    warm_up()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        order = json.loads(line)
        pid = os.fork()
        if pid == 0:
            _become(order)
        print(pid, flush=True)


def _become(order: dict[str, object]) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for fd in range(3):
        os.dup2(null, fd)
    env = order["env"]
    assert isinstance(env, dict)
    os.environ.clear()
    os.environ.update(env)
    if order["fault"]:
        arm(Fault.of(str(order["fault"])))
    status = 1
    try:
        status = daemon.main(str(order["config"]))
    finally:
        os._exit(status)


@dataclass(frozen=True, slots=True, kw_only=True)
class Daemon:
    """One daemon that was started."""

    pid: int
    _fd: int = field(repr=False)

    @property
    def gone(self) -> bool:
        """Whether it has ended."""
        return self.wait(0.0)

    def wait(self, timeout_s: float) -> bool:
        """Whether it has ended within a time."""
        return bool(select.select([self._fd], [], [], timeout_s)[0])

    def end(self, number: int = signal.SIGKILL) -> None:
        """End it and wait for that."""
        if not self.gone:
            signal.pidfd_send_signal(self._fd, number)
            assert self.wait(20.0)
        os.close(self._fd)


class Nursery:
    """`with Nursery() as nursery: nursery.start(...)`."""

    def __enter__(self) -> "Nursery":
        self._program = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.nursery"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stream(self._program.stdin).close()
        self._program.wait()
        self._stream(self._program.stdout).close()

    def start(self, config: Path, env: Mapping[str, str], fault: Fault | None = None) -> Daemon:
        """A daemon of that inventory, which dies where `fault` says."""
        order = {"config": str(config), "env": dict(env), "fault": str(fault) if fault else None}
        stdin = self._stream(self._program.stdin)
        stdin.write(json.dumps(order) + "\n")
        stdin.flush()
        pid = int(self._stream(self._program.stdout).readline())
        # The kernel may have reaped it already; then it died of itself, and opening says so.
        return Daemon(pid=pid, _fd=os.pidfd_open(pid))

    @staticmethod
    def _stream(stream: IO[str] | None) -> IO[str]:
        assert stream is not None
        return stream


if __name__ == "__main__":
    serve()
