"""The most memory that a daemon and its probes in a container ever had while something was done."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

_LOOK_S = 0.02


@dataclass(slots=True)
class Peak:
    """Bytes of resident memory."""

    daemon: int = 0
    probe: int = 0


@contextlib.asynccontextmanager
async def watched(daemon: int, container: int) -> AsyncIterator[Peak]:
    """Watch a daemon's PID, and every probe in the container whose first process is given."""
    peak = Peak()

    async def look() -> None:
        while True:
            peak.daemon = max(peak.daemon, _most(daemon))
            peak.probe = max(peak.probe, *map(_most, _probes(container)), 0)
            await asyncio.sleep(_LOOK_S)

    looking = asyncio.create_task(look())
    try:
        yield peak
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)


def _probes(container: int) -> Iterator[int]:
    space = os.readlink(f"/proc/{container}/ns/pid")
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            words = (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
            if b"/orch/probe/" in words and os.readlink(entry / "ns/pid") == space:
                yield int(entry.name)


def _most(pid: int) -> int:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0
