"""Start the processes of one host, and end all of them with the first that dies.

It sets what torchrun sets (RANK, WORLD_SIZE, LOCAL_RANK), so that a run over several hosts
is started by torchrun instead. Here the exit code and the last words are the first death's,
and nobody outlives it by more than a moment. It imports no torch.
"""

import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from types import FrameType
from typing import IO

from trainer.config import Config

LAUNCHER = "TRAINER_LAUNCHER"
"""Who started a process: it ends with it."""
RENDEZVOUS = "TRAINER_RENDEZVOUS"
PR_SET_PDEATHSIG = 1
POLL_S = 0.05
GRACE_S = 600
"""For a checkpoint to be written after a signal."""
STOPPED = (128 + signal.SIGTERM, 128 + signal.SIGINT)


def needed(config: Config) -> int:
    """How many processes are to be started here: 0 if this process is one of them, or alone."""
    count = _targets(config) + config.layout.drafters
    return count if count > 1 and "RANK" not in os.environ else 0


def _targets(config: Config) -> int:
    return config.layout.targets * max(1, config.layout.target_hosts)


def launch(argv: list[str], config: Config) -> int:
    """Run `python -m trainer` with `argv` once for each process; returns the exit code."""
    count = needed(config)
    with tempfile.TemporaryDirectory(prefix="trainer-") as folder:
        members = [
            Member(argv, number, count, Path(folder) / "rendezvous", _targets(config))
            for number in range(count)
        ]
        return _watch(members)


class Member:
    """One process, its name, and what it said last on stderr."""

    def __init__(
        self, argv: list[str], number: int, count: int, rendezvous: Path, targets: int
    ) -> None:
        served = number < targets
        self.name = f"target {number}" if served else f"drafter {number - targets}"
        self.last_words = ""
        self.quiet = False
        env = os.environ | {
            "RANK": str(number), "LOCAL_RANK": str(number), "WORLD_SIZE": str(count),
            "LOCAL_WORLD_SIZE": str(count), LAUNCHER: str(os.getpid()),
            RENDEZVOUS: str(rendezvous),
        }  # fmt: skip
        # All on one host: a hostname that resolves to nowhere must not matter.
        env.setdefault("GLOO_SOCKET_IFNAME", "lo")
        self.child = subprocess.Popen(
            [sys.executable, "-m", "trainer", *argv], env=env, stderr=subprocess.PIPE
        )
        assert self.child.stderr is not None
        self._reader = threading.Thread(target=self._pass_on, args=(self.child.stderr,))
        self._reader.daemon = True
        self._reader.start()

    def words(self) -> str:
        """Its last line on stderr."""
        self._reader.join(2)
        return self.last_words

    def _pass_on(self, pipe: IO[bytes]) -> None:
        for raw in pipe:
            line = raw.decode(errors="replace").rstrip()
            if line:
                self.last_words = line
            if not self.quiet:
                print(f"[{self.name}] {line}", file=sys.stderr, flush=True)


def _watch(members: list[Member]) -> int:
    signals: list[int] = []

    def remember(number: int, _frame: FrameType | None) -> None:
        signals.append(number)

    before = {n: signal.signal(n, remember) for n in (signal.SIGTERM, signal.SIGINT)}
    try:
        return _until_the_end(members, signals)
    finally:
        for member in members:
            if member.child.poll() is None:
                member.child.kill()
        for number, handler in before.items():
            signal.signal(number, handler)


def _until_the_end(members: list[Member], signals: list[int]) -> int:
    ends: float | None = None
    stopped = 0
    while True:
        codes = [member.child.poll() for member in members]
        if signals and ends is None:
            stopped = 128 + signals[0]
            _pass_on_stop(members)
        for member, code in zip(members, codes, strict=True):
            if code in STOPPED:
                stopped = stopped or code
            elif code:
                return _first_death(members, member, code)
        if stopped and ends is None:
            ends = time.monotonic() + GRACE_S
        if all(code is not None for code in codes):
            return stopped
        if ends is not None and time.monotonic() > ends:
            print(f"error: not saved within {GRACE_S} s; killed", file=sys.stderr)
            return stopped
        time.sleep(POLL_S)


def _pass_on_stop(members: list[Member]) -> None:
    for member in members:
        if member.child.poll() is None:
            member.child.send_signal(signal.SIGTERM)


def _first_death(members: list[Member], dead: Member, code: int) -> int:
    for member in members:
        if member is not dead:
            member.quiet = True
            if member.child.poll() is None:
                member.child.kill()
    for member in members:
        member.child.wait()
    words = dead.words()
    how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
    print(f"error: {dead.name} died {how}; all others were ended", file=sys.stderr)
    if words:
        print(words, file=sys.stderr, flush=True)
    return 128 - code if code < 0 else code


def die_with_launcher() -> None:
    """Ask the kernel to end this process with the one that started it, if that was launch.py."""
    launcher = os.environ.get(LAUNCHER)
    if launcher is None:
        return
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(launcher):
        os._exit(1)
