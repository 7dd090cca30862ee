"""A log of gigabytes behind the real API server: opening it, jumping in it, searching all of it.

python -m bench.tui.big_log FOLDER GIGABYTES     serves it until its input ends
"""

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from orchestrator.api.location import Location, locate
from orchestrator.api.server import LogRange
from tests.cli.canned import CannedBackend, CannedDaemon
from tui import search
from tui.reading import Reading
from tui.source import LiveSource

LINE = (
    b"step 123456/5000000  loss 2.7795  tok/s 10,546  phase train  lr 1.89e-03  grad_norm 0.8123\n"
)
BLOCK = LINE * 50_000
NEEDLE = b"RuntimeError: the needle\n"
MAX_RANGE_BYTES = 8 * 1024 * 1024


class BigLog(CannedBackend):
    """A log that is made where it is asked for: one line over and over, a needle at the end."""

    def __init__(self, location: Location, size: int) -> None:
        super().__init__(location)
        self.size = size // len(LINE) * len(LINE) + len(NEEDLE)

    async def log_range(self, words: str, query: Mapping[str, str]) -> LogRange:
        """A range of it, whichever run is meant."""
        del words
        offset = int(query.get("offset", 0))
        end = min(offset + min(int(query["size"]), MAX_RANGE_BYTES), self.size)
        shift = offset % len(LINE)
        count = max(end - offset, 0)
        chunk = bytearray((BLOCK * 2)[shift : shift + count])
        while len(chunk) < count:
            chunk += BLOCK[: count - len(chunk)]
        first = self.size - len(NEEDLE)
        if end > first:
            chunk[max(first - offset, 0) :] = NEEDLE[max(offset - first, 0) :]
        return LogRange(attempt=1, offset=offset, size=self.size, chunk=bytes(chunk))


def located(folder: Path) -> Location:
    """An inventory of its own, and its daemon's place."""
    inventory = folder / "inventory.yaml"
    inventory.write_text("version: 1\n")
    environ = {"XDG_STATE_HOME": str(folder / "state"), "HOME": str(folder)}
    return locate(inventory, environ)


def measure(folder: Path, gigabytes: float) -> dict[str, float]:
    """Milliseconds to open, to jump to the middle; seconds and MB/s to search all of it."""
    location = located(folder)
    argv = [sys.executable, "-m", "bench.tui.big_log", str(folder), str(gigabytes)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        server.stdout.readline()
        source = LiveSource(location)
        reading = Reading()
        reading.height = 40
        opened = _until_shown(source, reading)
        reading.jump(int(gigabytes * 5e8))
        jumped = _until_shown(source, reading)
        began = time.perf_counter()
        pattern = search.compiled("the needle")
        steps = search.down(pattern, lambda at, size: _read(source, at, size), 0)
        *_, last = steps
        took = time.perf_counter() - began
        assert last.found
        server.communicate()
    return {
        "log_gigabytes": gigabytes,
        "log_open_ms": opened * 1000,
        "log_jump_ms": jumped * 1000,
        "log_search_s": took,
        "log_search_mb_per_s": last.offset / took / 1e6,
    }


def _read(source: LiveSource, offset: int, size: int) -> bytes:
    return source.log("x", attempt=1, offset=offset, size=size).content


def _until_shown(source: LiveSource, reading: Reading) -> float:
    """Seconds until a screenful is there."""
    began = time.perf_counter()
    if reading.window.attempt is None:
        reading.told(1, source.log("x", attempt=1, offset=0, size=1).size)
    while len(reading.rows()) < reading.height:
        want = reading.wanted()
        assert want is not None
        reading.take(want, source.log("x", attempt=1, offset=want.offset, size=want.size))
    return time.perf_counter() - began


def serve(folder: Path, gigabytes: float) -> None:
    """Serve it until standard input ends."""
    location = located(folder)
    with CannedDaemon(location, BigLog(location, int(gigabytes * 1e9))):
        os.write(1, b"ready\n")
        sys.stdin.read()


if __name__ == "__main__":
    serve(Path(sys.argv[1]), float(sys.argv[2]))
