"""The tests' side of the nursery: starts the warm process, runs commands in forks of it."""

import io
import json
import os
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).parents[2]
READ_AT_START = ("PYTHON", "LC_", "LANG")
"""How the variables begin that Python reads but once, as it starts."""


def _read_at_start(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name.startswith(READ_AT_START)}


class Nursery:
    """`with Nursery() as nursery: nursery.run(...)`."""

    def __enter__(self) -> "Nursery":
        self._folder = Path(tempfile.mkdtemp(prefix="orch-nursery-", dir="/tmp"))
        self._started_with = _read_at_start(os.environ)
        interpreter = self._folder / "python"
        source = Path(__file__).with_name("interpreter.py").read_text()
        # sh runs these lines and Python passes over them: `#!` takes no path with a space.
        run_by = f"#!/bin/sh\n'''exec' {shlex.quote(sys.executable)} -IS \"$0\" \"$@\"\n' '''\n"
        interpreter.write_text(run_by + source)
        interpreter.chmod(0o700)
        beside = Path(sys.executable).with_name("py-spy")
        if beside.exists():  # the daemon looks for it beside its Python
            shutil.copy(beside, self._folder)
        self._program = subprocess.Popen(
            [sys.executable, "-m", "tests.nursery", str(self._folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        assert self._program.stdout is not None
        assert self._program.stdout.readline() == "warm\n"
        return self

    def __exit__(self, *_: object) -> None:
        self._program.communicate()
        shutil.rmtree(self._folder)

    def fits(self, env: Mapping[str, str]) -> bool:
        """Whether a Python that started with this environment would be like the warm one."""
        return _read_at_start(env) == self._started_with

    def run(
        self, words: Sequence[str], *, folder: Path, env: Mapping[str, str], timeout_s: float
    ) -> subprocess.CompletedProcess[str]:
        """`orch` with these words, as `subprocess.run` would run it and say what it said."""
        argv = ["-m", "orchestrator", *words]
        order = {
            "words": argv,
            "env": dict(env),
            "folder": str(folder),
            "umask": _umask(),
            "leads": False,
        }
        link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with link, _Pipe() as out, _Pipe() as err:
            link.connect(str(self._folder / "orders"))
            socket.send_fds(link, [json.dumps(order).encode()], [0, out.theirs, err.theirs])
            pid = int(link.recv(64) or self._dead())
            out.give_away()
            err.give_away()
            try:
                _read_all((out, err), link, argv, timeout_s)
            except BaseException:
                if not _can_be_read(link):  # else it has ended, and its PID may be another's
                    os.kill(pid, signal.SIGKILL)
                raise
            code = int(link.recv(64) or self._dead())
        return subprocess.CompletedProcess(argv, code, out.text(), err.text())

    def forks(self) -> set[str]:
        """PIDs of what runs in forks of it now."""
        task = Path(f"/proc/{self._program.pid}/task/{self._program.pid}")
        return set((task / "children").read_text().split())

    def _dead(self) -> NoReturn:
        raise RuntimeError(f"the nursery has ended: {self._program.poll()}")


def _umask() -> int:
    """Read, not tried: for a moment another one would be every thread's."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("Umask:")[2].split()[0], 8)


def _can_be_read(link: socket.socket) -> bool:
    poller = select.poll()
    poller.register(link, select.POLLIN)
    return bool(poller.poll(0))


@dataclass(slots=True)
class _Pipe:
    """What a command writes."""

    ours: int = -1
    theirs: int = -1
    content: bytearray = field(default_factory=bytearray)

    def __enter__(self) -> "_Pipe":
        self.ours, self.theirs = os.pipe()
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.ours)
        self.give_away()

    def give_away(self) -> None:
        """Close their end here, once they have it."""
        if self.theirs >= 0:
            os.close(self.theirs)
        self.theirs = -1

    def text(self) -> str:
        """All of it, as subprocess decodes it."""
        return io.TextIOWrapper(io.BytesIO(self.content)).read()


def _read_all(
    pipes: Sequence[_Pipe], link: socket.socket, argv: Sequence[str], timeout_s: float
) -> None:
    """Until every writer of the pipes has closed them, and the command has ended."""
    deadline = time.monotonic() + timeout_s
    waited_for: dict[int, _Pipe | None] = {pipe.ours: pipe for pipe in pipes}
    waited_for[link.fileno()] = None
    poller = select.poll()
    for fd in waited_for:
        poller.register(fd, select.POLLIN)
    while waited_for:
        left = deadline - time.monotonic()
        ready = poller.poll(1000 * max(left, 0.0))
        if not ready and left <= 0:
            raise subprocess.TimeoutExpired(list(argv), timeout_s)
        for fd, _ in ready:
            pipe = waited_for[fd]
            chunk = os.read(fd, 1 << 16) if pipe is not None else b""
            if pipe is not None:
                pipe.content += chunk
            if not chunk:
                del waited_for[fd]
                poller.unregister(fd)
