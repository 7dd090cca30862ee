"""Floods straight into a followed file: what is stored a second, what memory it takes, who waits.

    python -m bench.observe.flood [MEGABYTES] [--rate MB_S] [--kinds KIND ...] [--json FILE]
                                                            (default: 1000; no lab, no root)

Lines, one line without an end, and random bytes are appended, as fast as the disk takes them or at
a rate, on this machine, to a file that a real probe follows; link, reader, detection, store are the
daemon's. `mb_appended_a_s` is what the writer reached, `mb_stored_a_s` the whole way. Memory is the
highest seen above what was there before, of this process (the daemon's side) and of the probe;
`_late` the same in the last third of the time, above the first. `beside` is another run on the same
probe that prints ten lines a second: how old its lines were once stored. The stored log is compared
with the file.
"""

import argparse
import asyncio
import hashlib
import os
import statistics
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from bench.observe.figures import keep, show
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
TRICKLE_EVERY_S = 0.1
HERE = Target(name="here", host=Host(name="here", transport="local"))


async def flood(
    kind: str, megabytes: int, folder: Path, *, mb_a_s: float = float("inf")
) -> dict[str, Any]:
    """One flood, from its first byte to the last one stored."""
    store, pool = await Store.open(folder / "state", SystemClock()), Pool()
    link = Link(HERE, pool.transport(HERE), SystemClock(), f"flood{os.getpid()}")
    await link.start()
    run, reading = await _followed(store, link, folder, "flood")
    log = _log_of(run)
    log.write_bytes(KINDS[kind]())  # with the first bytes detection is made ready, for good
    await _stored(store, run, BLOCK_BYTES)
    other, beside = await _followed(store, link, folder, "beside")
    trickle = Trickle(store, other)
    printing = asyncio.create_task(trickle.print())
    memory = Memory((psutil.Process(), psutil.Process(int((link.hello or {})["pid"]))))
    begun, appended = time.monotonic(), list[float]()
    words = (log, KINDS[kind](), megabytes, mb_a_s, appended)
    writer = threading.Thread(target=_append, args=words)
    writer.start()
    while store.logs.end(run.id, 1) < (megabytes + 1) * BLOCK_BYTES:
        memory.look()
        await asyncio.sleep(LOOK_S)
    passed_s = time.monotonic() - begun
    writer.join()
    for task in (printing, reading, beside):
        task.cancel()
    await asyncio.gather(printing, reading, beside, return_exceptions=True)
    same = _digest(store, run) == _digest_of(log)
    await link.close()
    await pool.close()
    await store.close()
    return {
        "flood": kind,
        "mb": megabytes,
        "mb_appended_a_s": round(megabytes / appended[0]),
        "mb_stored_a_s": round(megabytes / passed_s),
        **memory.found(),
        **trickle.found(),
        "stored_is_the_file": same,
    }


class Memory:
    """What the daemon's side and the probe take, seen again and again."""

    def __init__(self, ones: tuple[psutil.Process, psutil.Process]) -> None:
        self._ones = ones
        self._seen: list[tuple[int, ...]] = []
        self.look()

    def look(self) -> None:
        """Once more."""
        self._seen.append(tuple(one.memory_info().rss for one in self._ones))

    def found(self) -> dict[str, float]:
        """In MB: the most above the beginning; the most of the last third above the first."""
        third = max(1, len(self._seen) // 3)
        rows: dict[str, float] = {}
        for name, seen in zip(("daemon", "probe"), zip(*self._seen, strict=True), strict=True):
            rows[f"{name}_mb_more"] = round((max(seen) - seen[0]) / 1e6, 1)
            rows[f"{name}_mb_late"] = round((max(seen[-third:]) - max(seen[:third])) / 1e6, 1)
        return rows


class Trickle:
    """A run beside the flood: it prints the time, and is looked at for what is stored of it."""

    def __init__(self, store: Store, run: Run) -> None:
        self._store, self._run = store, run
        self._delays_s: list[float] = []

    async def print(self) -> None:
        """Ten lines a second, for ever."""
        written = 0
        waiting: deque[tuple[int, float]] = deque()
        next_at = time.monotonic()
        with _log_of(self._run).open("ab", buffering=0) as file:
            while True:
                now = time.monotonic()
                if now >= next_at:
                    written += file.write(b"step at %.6f loss 2.34567\n" % now)
                    waiting.append((written, now))
                    next_at += TRICKLE_EVERY_S
                stored = self._store.logs.end(self._run.id, 1)
                while waiting and waiting[0][0] <= stored:
                    self._delays_s.append(now - waiting.popleft()[1])
                await asyncio.sleep(0.005)

    def found(self) -> dict[str, float | None]:
        """How old its lines were, in ms."""
        if not self._delays_s:
            return {"beside_p50_ms": None, "beside_worst_ms": None}
        return {
            "beside_p50_ms": round(1000 * statistics.median(self._delays_s), 1),
            "beside_worst_ms": round(1000 * max(self._delays_s), 1),
        }


async def _followed(
    store: Store, link: Link, folder: Path, name: str
) -> tuple[Run, asyncio.Task[None]]:
    """A run of which somebody prints, read as the daemon does."""
    job = Job(name=name, targets=(HERE,), command=("true",), workdir=str(folder), session="f")
    run = await store.runs.create(_draft(folder, name))
    _log_of(run).parent.mkdir(parents=True)
    return run, asyncio.create_task(_read(store, link, run, job))


def _log_of(run: Run) -> Path:
    return Path(attempt_dir(run)) / "output.log"


def _draft(folder: Path, name: str) -> Run:
    return Run(
        id="",
        uid=name,
        job=name,
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


def _append(log: Path, block: bytes, megabytes: int, mb_a_s: float, appended: list[float]) -> None:
    begun = time.monotonic()
    with log.open("ab", buffering=0) as file:
        for number in range(megabytes):
            file.write(block)
            time.sleep(max(0.0, begun + (number + 1) / mb_a_s - time.monotonic()))
    appended.append(time.monotonic() - begun)


def _digest(store: Store, run: Run) -> str:
    digest = hashlib.sha256()
    for _, part in store.logs.parts(run.id, 1):
        digest.update(part)
    return digest.hexdigest()


def _digest_of(log: Path) -> str:
    with log.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def main() -> None:
    """Each kind in a folder of its own."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.observe.flood",
        description="Floods straight into a followed file.",
    )
    parser.add_argument("megabytes", nargs="?", type=int, default=MEGABYTES, metavar="MEGABYTES")
    parser.add_argument("--rate", type=float, default=float("inf"), metavar="MB_S")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS), metavar="KIND")
    parser.add_argument("--json", metavar="FILE", help="write the figures there as well")
    words = parser.parse_args()
    rows = []
    for kind in words.kinds:
        with tempfile.TemporaryDirectory(prefix="orch-flood-") as name:
            os.environ["XDG_DATA_HOME"] = f"{name}/share"
            found = flood(kind, words.megabytes, Path(name), mb_a_s=words.rate)
            rows.append(asyncio.run(found))
    show(rows, as_json=False)
    keep(words.json, {"floods": rows})


if __name__ == "__main__":
    main()
