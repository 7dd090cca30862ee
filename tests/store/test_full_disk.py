"""A disk of this machine that is really full: nothing is lost, and nothing is passed over."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.clock import SystemClock
from orchestrator.core.errors import StoreError
from orchestrator.core.events import Event, LogBytes, LogGap, MetricLines
from orchestrator.core.findings import Finding
from orchestrator.core.model import Severity
from orchestrator.observe.follow import Follower
from orchestrator.reading import NOT_STORED, Reader
from orchestrator.store import Store
from orchestrator.store.logs import Logs
from tests.faults.test_recall import draft, job
from tests.store.conftest import SmallDisk

WITHIN_S = 30.0
CRASH = b"Exception in thread fit:\nTraceback (most recent call last):\nKeyError: 'ids'\nstep 2\n"


class Told(Follower):
    """A target that tells these events, and then is quiet."""

    def __init__(self, *events: Event) -> None:
        self.events = events
        self.known: list[Event] = []

    async def within(self, _quiet_s: float | None) -> AsyncIterator[Event | None]:
        for event in self.events:
            yield event
        yield None

    async def stored(self, event: LogBytes | LogGap | MetricLines) -> None:
        self.known.append(event)


def filler(folder: Path, left: int) -> Path:
    """A file that leaves so many bytes of a disk."""
    path = folder / "filler"
    with path.open("wb", buffering=0) as stream:
        try:
            while True:
                stream.write(bytes(4096))
        except OSError:
            pass
    with path.open("r+b") as stream:
        stream.truncate(path.stat().st_size - left)
    return path


async def read(reader: Reader, told: Told) -> list[Finding]:
    """All that is found in what the target tells."""
    async with aclosing(reader.events(told)) as events, asyncio.timeout(WITHIN_S):
        return [event async for event in events if isinstance(event, Finding)]


async def refused(reader: Reader) -> None:
    """Until the reader says that the disk takes nothing."""
    async with asyncio.timeout(WITHIN_S):
        while NOT_STORED not in reader.tally.metrics:
            await asyncio.sleep(0.02)


async def test_what_was_stored_in_pieces_is_looked_at_as_a_whole(
    tmp_path: Path, small_disk: SmallDisk
) -> None:
    """The crash stood in the first piece, before the disk was full; the rest came with space."""
    small_disk(tmp_path / "logs", kib=512)
    store = await Store.open(tmp_path, SystemClock())
    run = await store.runs.create(draft())
    reader = Reader(store, run, job(), (), SystemClock())
    reader.replay()
    full = filler(tmp_path / "logs", 12_288)
    chunk = CRASH + b"step 3 loss 2.1\n" * 2000
    told = Told(LogBytes(offset=0, data=chunk, at=1.0))
    reading = asyncio.ensure_future(read(reader, told))
    await refused(reader)
    assert 0 < store.logs.end(run.id, 1) < len(chunk)
    assert told.known == []
    full.unlink()
    assert [one.signature for one in await reading] == ["python_error"]
    assert store.logs.read(run.id, 1, 0, len(chunk) + 1) == chunk
    assert NOT_STORED not in reader.tally.metrics
    await store.close()


async def test_a_gap_that_cannot_be_stored_is_waited_for(
    tmp_path: Path, small_disk: SmallDisk
) -> None:
    """What the target lost is noted as a file, for which there may be no room here either."""
    small_disk(tmp_path / "logs", kib=512, files=8)
    store = await Store.open(tmp_path, SystemClock())
    run = await store.runs.create(draft())
    reader = Reader(store, run, job(), (), SystemClock())
    store.logs.append(run.id, 1, 0, b"abc", 1.0)
    others = [tmp_path / "logs" / f"other-{number}" for number in range(8)]
    with contextlib.suppress(OSError):
        for one in others:
            one.touch()
    gap = LogGap(offset=3, size=7, reason="disk_full", end=10, at=1.0)
    told = Told(gap, LogBytes(offset=10, data=b"defg", at=2.0))
    reading = asyncio.ensure_future(read(reader, told))
    await refused(reader)
    assert told.known == []
    for one in others:
        one.unlink(missing_ok=True)
    await reading
    assert list(store.logs.parts(run.id, 1)) == [(0, b"abc"), (10, b"defg")]
    assert told.known == list(told.events)
    await store.close()


async def test_what_a_full_disk_over_there_lost_is_a_finding_once(tmp_path: Path) -> None:
    """Each new link tells of it again; a file that somebody truncated is nobody's fault."""
    store = await Store.open(tmp_path, SystemClock())
    run = await store.runs.create(draft())
    reader = Reader(store, run, job(), (), SystemClock())
    gap = LogGap(offset=0, size=7, reason="disk_full", end=0, at=1.0)
    assert await read(reader, Told(replace(gap, reason="truncated"))) == []
    (found,) = await read(reader, Told(gap))
    assert (found.signature, found.severity) == ("output_lost", Severity.WARNING)
    assert found.fingerprint is not None
    reader.told_of = lambda: frozenset({str(found.fingerprint)})
    assert await read(reader, Told(gap, replace(gap, size=9))) == []
    await store.close()


def test_a_log_that_cannot_be_packed_leaves_no_half_of_it(
    tmp_path: Path, small_disk: SmallDisk
) -> None:
    """On a full disk of all places: what is there stays as it is, and can be read."""
    small_disk(tmp_path / "logs", kib=512)
    logs = Logs(tmp_path / "logs")
    content = bytes(number * number % 251 for number in range(100_000))
    logs.append("j-1", 1, 0, content, 1.0)
    filler(tmp_path / "logs", 0)
    logs.close("j-1", 1)
    logs.close_all()
    assert sorted(one.suffix for one in (tmp_path / "logs/j-1/1").iterdir()) == ["", ".log"]
    assert Logs(tmp_path / "logs").read("j-1", 1, 0, len(content)) == content


def test_a_claim_survives_a_disk_that_is_full_when_it_is_made_again(
    tmp_path: Path, small_disk: SmallDisk
) -> None:
    """Each daemon's start says anew which runs are ours; without it a lost one never comes back."""
    small_disk(tmp_path / "logs", kib=64)
    logs = Logs(tmp_path / "logs")
    logs.claim("j-1", "u1")
    filler(tmp_path / "logs", 0)
    logs.claim("j-1", "u1")
    with pytest.raises(StoreError, match="Free some space"):
        logs.claim("j-1", "u2")
    assert logs.claimed() == {"j-1": "u1"}
