"""A fleet that never rests, behind the real API server: of 200 runs the live ones always change.

python -m bench.tui.busy FOLDER UPDATES_PER_S     serves it until its input ends
"""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.tui.big_log import located
from orchestrator.api.location import Location
from orchestrator.api.messages import Snapshot
from tests.cli.canned import CannedBackend, CannedDaemon
from tests.tui import pieces, situations

NEWEST = "dflash-200"


class Busy(CannedBackend):
    """The situation of 200 runs, told as of now."""

    def __init__(self, location: Location, updates_per_s: float) -> None:
        super().__init__(location)
        self.documents["metrics"] = {"metrics": []}
        self._whole: dict[str, Any] = situations.SITUATIONS["200-runs"]()[-1]["snapshot"]
        self._live = [run for run in self._whole["runs"] if run["state"] == "running"]
        self._pause_s = 1 / updates_per_s
        self._ticks = 0

    async def snapshot(self, since: int | None) -> Snapshot:
        """The whole."""
        del since
        return {**self._whole, "at": time.time()}  # type: ignore[typeddict-item]  # a situation's

    async def changes(self, since: int) -> AsyncIterator[Snapshot]:
        """Steps, losses and ages of every live run."""
        while True:
            await asyncio.sleep(self._pause_s)
            self._ticks += 1
            now, loss = time.time(), 2 + 1 / self._ticks
            runs = [
                {**run, "step": run["step"] + self._ticks, "loss": loss, "output_at": now}
                for run in self._live
            ]
            yield {
                **pieces.snapshot([], runs),  # type: ignore[typeddict-item]  # a situation's
                "cursor": since + self._ticks,
                "at": now,
            }


@contextmanager
def served(folder: Path, updates_per_s: float) -> Iterator[Path]:
    """That daemon in a program of its own; its inventory."""
    location = located(folder)
    argv = [sys.executable, "-m", "bench.tui.busy", str(folder), str(updates_per_s)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        server.stdout.readline()
        yield location.inventory
        server.communicate()


def serve(folder: Path, updates_per_s: float) -> None:
    """Serve it until standard input ends."""
    location = located(folder)
    with CannedDaemon(location, Busy(location, updates_per_s)):
        os.write(1, b"ready\n")
        sys.stdin.read()


if __name__ == "__main__":
    serve(Path(sys.argv[1]), float(sys.argv[2]))
