"""A log of gigabytes as the daemon stores it, behind the real API server: open, jump, search.

python -m bench.tui.big_log FOLDER GIGABYTES     stores it, serves it until its input ends
"""

import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

from orchestrator.api.location import Location, locate
from orchestrator.api.server import LogRange
from orchestrator.daemon import searching
from orchestrator.store.logs import Logs
from tests.cli.canned import CannedBackend, CannedDaemon
from tui.reading import Reading
from tui.source import LiveSource

LINES = b"".join(
    b"step %d/5000000  loss %.4f  tok/s %d  phase train  lr 1.89e-03  grad_norm %.4f\n"
    % (step, 2 + 1e3 / (step + 9), 10_000 + step * 7919 % 997, step * 104_729 % 10_007 / 10_007)
    for step in range(50_000)
)
NEEDLE = b"RuntimeError: the needle\n"
MAX_RANGE_BYTES = 8 * 1024 * 1024


class BigLog(CannedBackend):
    """Step lines, and a needle at the end; closed segments are compressed, as in any store."""

    def __init__(self, location: Location, size: int) -> None:
        super().__init__(location)
        self.logs = Logs(location.state_folder / "logs")
        for at in range(0, size, len(LINES)):
            self.logs.append("x", 1, at, LINES, 1.0)
        self.logs.append("x", 1, self.logs.end("x", 1), NEEDLE, 2.0)
        self.logs.close("x", 1)
        self.logs.close_all()

    async def log_range(self, words: str, query: Mapping[str, str]) -> LogRange:
        """A range of it, whichever run is meant."""
        del words
        offset, size = int(query.get("offset", 0)), min(int(query["size"]), MAX_RANGE_BYTES)
        chunk = self.logs.read("x", 1, offset, size)
        return LogRange(attempt=1, offset=offset, size=self.logs.end("x", 1), chunk=chunk)

    async def stream(
        self, what: str, words: str, body: Mapping[str, Any]
    ) -> AsyncIterator[dict[str, Any]]:
        """The daemon's own search."""
        del what, words
        async for message in searching.in_log(self.logs, "x", 1, body):
            yield message


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
        down, up = (_searched(source, way, int(gigabytes * 2e9)) for way in ("down", "up"))
        server.communicate()
    return {
        "log_gigabytes": gigabytes,
        "log_open_ms": opened * 1000,
        "log_jump_ms": jumped * 1000,
        "log_search_s": down,
        "log_search_mb_per_s": gigabytes * 1e3 / down,
        "log_near_match_ms": up * 1000,
    }


def _searched(source: LiveSource, way: str, near: int) -> float:
    """Seconds to the needle at the end of all, down; or to a step just above `near`, up."""
    words, offset = ("the needle", 0) if way == "down" else ("step 4[0-9]*9/", near)
    began = time.perf_counter()
    *_, last = source.search("x", attempt=1, words=words, way=way, offset=offset)
    assert last.found
    return time.perf_counter() - began


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
