"""Floods straight into a followed file: what is stored a second, and what memory it takes.

    python -m bench.observe.flood [MEGABYTES] [--json]       (default: 1000; no lab, no root)

Lines, one line without an end, and random bytes are appended as fast as the disk takes them, on
this machine, to a file that a real probe follows; link, reader, detection, store are the daemon's.
`mb_appended_a_s` is what the writer reached, `mb_stored_a_s` the whole way. Memory is the highest
seen above what was there before, of this process (the daemon's side) and of the probe. The stored
log is compared with the file.
"""

import asyncio
import hashlib
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from bench.observe.figures import show, wants_json
from orchestrator.clock import SystemClock
from orchestrator.core.model import Host, Job, Run, RunState, Target
from orchestrator.launch.session import attempt_dir
from orchestrator.link.link import Link
from orchestrator.observe.follow import follow
from orchestrator.reading import Reader
from orchestrator.store.store import Store
from orchestrator.transport.pool import Pool

MEGABYTES = 1000
BLOCK_BYTES = 1_000_000
LINE = b"step 123 loss 2.34567 tokens/s 123456.7 and some words more to fill the line up\n"
KINDS: dict[str, Callable[[], bytes]] = {
    "lines": lambda: (LINE * (BLOCK_BYTES // len(LINE) + 1))[:BLOCK_BYTES],
    "one line": lambda: b"x" * BLOCK_BYTES,
    "binary": lambda: os.urandom(BLOCK_BYTES),
}
LOOK_S = 0.05
HERE = Target(name="here", host=Host(name="here", transport="local"))


async def flood(kind: str, megabytes: int, folder: Path) -> dict[str, Any]:
    """One flood, from its first byte to the last one stored."""
    store, pool = await Store.open(folder / "state", SystemClock()), Pool()
    link = Link(HERE, pool.transport(HERE), SystemClock(), f"flood{os.getpid()}")
    await link.start()
    job = Job(name="flood", targets=(HERE,), command=("true",), workdir=str(folder), session="f")
    run = await store.runs.create(_draft(folder))
    log = Path(attempt_dir(run)) / "output.log"
    log.parent.mkdir(parents=True)
    reading = asyncio.create_task(_read(store, link, run, job))
    log.write_bytes(KINDS[kind]())  # with the first bytes detection is made ready, for good
    await _stored(store, run, BLOCK_BYTES)
    ours, probe = psutil.Process(), psutil.Process(int((link.hello or {})["pid"]))
    before = [one.memory_info().rss for one in (ours, probe)]
    most, begun = list(before), time.monotonic()
    appended: list[float] = []
    writer = threading.Thread(target=_append, args=(log, KINDS[kind](), megabytes, appended))
    writer.start()
    while store.logs.end(run.id, 1) < (megabytes + 1) * BLOCK_BYTES:
        most = [max(m, one.memory_info().rss) for m, one in zip(most, (ours, probe), strict=True)]
        await asyncio.sleep(LOOK_S)
    passed_s = time.monotonic() - begun
    writer.join()
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    same = _digest(store, run) == hashlib.sha256(log.read_bytes()).hexdigest()
    await link.close()
    await pool.close()
    await store.close()
    return {
        "flood": kind,
        "mb": megabytes,
        "mb_appended_a_s": round(megabytes / appended[0]),
        "mb_stored_a_s": round(megabytes / passed_s),
        "daemon_mb_more": round((most[0] - before[0]) / 1e6, 1),
        "probe_mb_more": round((most[1] - before[1]) / 1e6, 1),
        "stored_is_the_file": same,
    }


def _draft(folder: Path) -> Run:
    return Run(
        id="",
        uid="flood",
        job="flood",
        target="here",
        number=0,
        state=RunState.RUNNING,
        attempt=1,
        session="f",
        directory=str(folder / "runs" / "{id}"),
    )


async def _stored(store: Store, run: Run, size: int) -> None:
    while store.logs.end(run.id, 1) < size:
        await asyncio.sleep(LOOK_S)


async def _read(store: Store, link: Link, run: Run, job: Job) -> None:
    reader = Reader(store, run, job, (), SystemClock())
    follower = await follow(link, run, attempt_dir(run), clock=SystemClock())
    async for _ in reader.events(follower):
        pass


def _append(log: Path, block: bytes, megabytes: int, appended: list[float]) -> None:
    begun = time.monotonic()
    with log.open("ab", buffering=0) as file:
        for _ in range(megabytes):
            file.write(block)
    appended.append(time.monotonic() - begun)


def _digest(store: Store, run: Run) -> str:
    digest = hashlib.sha256()
    for _, part in store.logs.parts(run.id, 1):
        digest.update(part)
    return digest.hexdigest()


def main() -> None:
    """Each kind in a folder of its own."""
    as_json = wants_json()
    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else MEGABYTES
    rows = []
    for kind in KINDS:
        with tempfile.TemporaryDirectory(prefix="orch-flood-") as name:
            os.environ["XDG_DATA_HOME"] = f"{name}/share"
            rows.append(asyncio.run(flood(kind, megabytes, Path(name))))
    show(rows, as_json=as_json)


if __name__ == "__main__":
    main()
