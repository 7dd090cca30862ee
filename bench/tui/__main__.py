"""The dashboard in a terminal of its own, measured from outside.

    python -m bench.tui [--seconds 30] [--size 120x40] [--log-gigabytes 5]

First paint: from the start of Python to the newest run on the screen (ten starts). Key to paint:
200 runs, all live ones changing ten times a second; a key is written to the terminal, and the clock
stops when the cursor's mark comes back. CPU and memory are the program's own over that time.
"""

import argparse
import json
import os
import pty
import re
import select
import statistics
import struct
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import ioctl
from pathlib import Path
from termios import TIOCSWINSZ

import psutil

from bench.tui import big_log
from tests.tui import situations

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
def dashboard(replay: Path, columns: int, lines: int) -> Iterator[Terminal]:
    """The dashboard with a replay."""
    terminal = Terminal([sys.executable, "-m", "tui", "--replay", str(replay)], columns, lines)
    try:
        yield terminal
    finally:
        terminal.end()


def busy_replay(folder: Path, seconds: int) -> Path:
    """200 runs, of which the 20 live ones change ten times a second."""
    lines = situations.SITUATIONS["200-runs"]()
    whole = lines[-1]["snapshot"]
    live = [run for run in whole["runs"] if run["state"] == "running"]
    for tick in range(1, (seconds + 30) * UPDATES_PER_S):
        t = tick / UPDATES_PER_S
        runs = [
            {**run, "step": run["step"] + tick, "loss": 2 + 1 / tick, "output_at": whole["at"] + t}
            for run in live
        ]
        lines.append(situations.change(t, runs=runs))
    path = folder / "busy.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def first_paints(folder: Path, columns: int, lines: int) -> list[float]:
    """Milliseconds from the start of Python to the newest run on the screen."""
    replay = situations.write("healthy", folder)
    found = []
    for _ in range(STARTS):
        with dashboard(replay, columns, lines) as terminal:
            found.append((terminal.until(b"dflash-3") - terminal.began) * 1000)
            terminal.drain(0.3)
    return found


def keys_to_paint(folder: Path, seconds: int, columns: int, lines: int) -> dict[str, float]:
    """Percentiles in milliseconds, CPU in cores, memory in MiB, bytes a second."""
    with dashboard(busy_replay(folder, seconds), columns, lines) as terminal:
        terminal.until(MARK)
        terminal.type(b"\x1b[F")  # End: among runs that have ended, and do not change
        terminal.drain(3.0)
        program = psutil.Process(terminal.pid)
        cpu, memory = sum(program.cpu_times()[:2]), program.memory_info().rss
        began, received, times = time.perf_counter(), terminal.received, []
        up = True
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
            "memory_mib": program.memory_info().rss / 2**20,
            "memory_growth_kib_per_min": (program.memory_info().rss - memory) / 1024 / took * 60,
            "bytes_per_s": (terminal.received - received) / took,
        }


def main() -> None:
    """Measure all, and print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--size", default="120x40")
    parser.add_argument("--log-gigabytes", type=float, default=5.0)
    options = parser.parse_args()
    match = re.fullmatch(r"(\d+)x(\d+)", options.size)
    assert match, "--size is like 120x40"
    columns, lines = int(match[1]), int(match[2])
    with tempfile.TemporaryDirectory(prefix="orch-bench-") as name:
        folder = Path(name)
        paints = first_paints(folder, columns, lines)
        figures = {
            "load_average": os.getloadavg()[0],
            "first_paint_p50_ms": statistics.median(paints),
            "first_paint_worst_ms": max(paints),
            **keys_to_paint(folder, options.seconds, columns, lines),
            **big_log.measure(folder, options.log_gigabytes),
        }
    print(json.dumps({key: round(value, 3) for key, value in figures.items()}, indent=2))


if __name__ == "__main__":
    main()
