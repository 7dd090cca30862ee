"""The dashboard in a terminal of its own before a daemon that serves, measured from outside.

    python -m bench.tui [--seconds 30] [--minutes 5] [--size 120x40] [--log-gigabytes 5]

First paint: from the start of Python to the newest run on the screen (ten starts). Key to paint:
200 runs, all live ones changing ten times a second; a key is written to the terminal, and the clock
stops when the cursor's mark comes back. CPU and memory are the program's own over that time; memory
is looked at for some minutes more, and its growth is that of the second half of them. Start-up of
`orch status` is told as a ratio to `python -c pass`, as is that of
peers that are in PATH.
"""

import argparse
import json
import os
import pty
import re
import select
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import ioctl
from pathlib import Path
from termios import TIOCSWINSZ

import psutil

from bench.tui import big_log, busy

STARTS = 10
UPDATES_PER_S = 10
MARK = "\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}".encode()


class Terminal:
    """A program in a pty."""

    def __init__(self, argv: list[str], columns: int, lines: int) -> None:
        self.began = time.perf_counter()
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            os.environ.update(TERM="xterm-256color", COLORTERM="truecolor")
            os.execvp(argv[0], argv)
        ioctl(self._fd, TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.received = 0

    def until(self, mark: bytes, within_s: float = 30.0) -> float:
        """Read until the mark comes; the moment at which it did."""
        tail, end = b"", time.perf_counter() + within_s
        while time.perf_counter() < end:
            chunk = self._read(end - time.perf_counter())
            tail = tail[-len(mark) :] + chunk
            if mark in tail:
                return time.perf_counter()
        raise TimeoutError(f"{mark!r} never came")

    def drain(self, seconds: float) -> None:
        """Read and forget for a while."""
        end = time.perf_counter() + seconds
        while (left := end - time.perf_counter()) > 0:
            self._read(left)

    def _read(self, within_s: float) -> bytes:
        ready, _, _ = select.select([self._fd], [], [], max(within_s, 0))
        chunk = os.read(self._fd, 1 << 16) if ready else b""
        self.received += len(chunk)
        return chunk

    def type(self, keys: bytes) -> float:
        """Write keys; the moment at which that was done."""
        os.write(self._fd, keys)
        return time.perf_counter()

    def end(self) -> None:
        """Leave with q, and read what is left so that it can."""
        self.type(b"q")
        try:
            self.drain(0.5)
        except OSError:
            pass  # it has closed its end
        os.waitpid(self.pid, 0)
        os.close(self._fd)


@contextmanager
def dashboard(inventory: Path, columns: int, lines: int) -> Iterator[Terminal]:
    """The dashboard of that inventory's daemon."""
    terminal = Terminal([sys.executable, "-m", "tui", "--config", str(inventory)], columns, lines)
    try:
        yield terminal
    finally:
        terminal.end()


def first_paints(inventory: Path, columns: int, lines: int) -> list[float]:
    """Milliseconds from the start of Python to the newest run on the screen."""
    found = []
    for _ in range(STARTS):
        with dashboard(inventory, columns, lines) as terminal:
            found.append((terminal.until(busy.NEWEST.encode()) - terminal.began) * 1000)
            terminal.drain(0.3)
    return found


def keys_to_paint(terminal: Terminal, seconds: int) -> dict[str, float]:
    """Percentiles in milliseconds, CPU in cores, bytes a second."""
    terminal.until(MARK)
    terminal.type(b"\x1b[F")  # End: among runs that have ended, and do not change
    terminal.drain(3.0)
    program = psutil.Process(terminal.pid)
    cpu, received = sum(program.cpu_times()[:2]), terminal.received
    began, times, up = time.perf_counter(), [], True
    while time.perf_counter() - began < seconds:
        pressed = terminal.type(b"\x1b[A" if up else b"\x1b[B")
        times.append((terminal.until(MARK) - pressed) * 1000)
        terminal.drain(0.13)  # no multiple of the time between two updates
        up = not up
    took = time.perf_counter() - began
    return {
        "keys": len(times),
        "key_to_paint_p50_ms": statistics.median(times),
        "key_to_paint_p95_ms": statistics.quantiles(times, n=20)[-1],
        "cpu_cores": (sum(program.cpu_times()[:2]) - cpu) / took,
        "bytes_per_s": (terminal.received - received) / took,
    }


def memory(terminal: Terminal, minutes: float) -> dict[str, float]:
    """MiB at the end, and KiB a minute over the second half of the time."""
    program, seen = psutil.Process(terminal.pid), []
    for _ in range(max(int(minutes * 6), 2)):
        terminal.drain(10.0)
        seen.append(program.memory_info().rss / 1024)
    half = len(seen) // 2
    return {
        "memory_mib": seen[-1] / 1024,
        "memory_growth_kib_per_min": (seen[-1] - seen[half]) / (len(seen) - 1 - half) * 6,
        "memory_minutes": minutes,
    }


def starts() -> dict[str, float]:
    """Start-up of programs as a ratio to that of `python -c pass`; those that are installed."""
    pass_s = _best([sys.executable, "-c", "pass"])
    found = {"python_pass_ms": pass_s * 1000}
    for name in ("pyinfra", "ansible"):
        if program := shutil.which(name):
            found[f"{name}_version_ratio"] = _best([program, "--version"]) / pass_s
    return found


def status_ratio(inventory: Path) -> float:
    """`orch status` before a daemon that runs, likewise."""
    argv = [sys.executable, "-m", "orchestrator", "--config", str(inventory), "status"]
    return _best(argv) / _best([sys.executable, "-c", "pass"])


def _best(argv: list[str]) -> float:
    """Seconds of the quickest of ten starts: what else goes on only ever adds to them."""
    times = []
    for _ in range(STARTS):
        began = time.perf_counter()
        subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - began)
    return min(times)


def main() -> None:
    """Measure all, and print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--size", default="120x40")
    parser.add_argument("--log-gigabytes", type=float, default=5.0)
    options = parser.parse_args()
    match = re.fullmatch(r"(\d+)x(\d+)", options.size)
    assert match, "--size is like 120x40"
    columns, lines = int(match[1]), int(match[2])
    with tempfile.TemporaryDirectory(prefix="orch-bench-") as name:
        folder = Path(name)
        os.environ["XDG_STATE_HOME"] = str(folder / "state")
        os.environ.pop("XDG_RUNTIME_DIR", None)
        with busy.served(folder, UPDATES_PER_S) as inventory:
            paints = first_paints(inventory, columns, lines)
            figures = {
                "load_average": os.getloadavg()[0],
                "first_paint_p50_ms": statistics.median(paints),
                "first_paint_worst_ms": max(paints),
                "status_ratio": status_ratio(inventory),
                **starts(),
            }
            with dashboard(inventory, columns, lines) as terminal:
                figures |= keys_to_paint(terminal, options.seconds)
                figures |= memory(terminal, options.minutes) if options.minutes else {}
        if options.log_gigabytes:
            figures |= big_log.measure(folder, options.log_gigabytes)
    print(json.dumps({key: round(value, 3) for key, value in figures.items()}, indent=2))


if __name__ == "__main__":
    main()
