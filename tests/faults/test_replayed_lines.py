"""A daemon that starts again over a long log: lines keep their numbers."""

from pathlib import Path

from orchestrator.clock import SystemClock
from orchestrator.reading import REPLAY_BYTES, Reader
from orchestrator.store import Store
from tests.faults.test_recall import draft, job

LINE = b"step 1 loss 2.3 ".ljust(1023, b".") + b"\n"
CRASH = b"Exception in thread fit:\nTraceback (most recent call last):\nKeyError: 'ids'\nstep 2\n"


async def test_lines_are_numbered_from_the_logs_first_one(tmp_path: Path) -> None:
    """Of a log of which only the newest part is read again, the number is that of the whole."""
    store = await Store.open(tmp_path, SystemClock())
    run = await store.runs.create(draft())
    count = REPLAY_BYTES // len(LINE) + 5000
    store.logs.append(run.id, 1, 0, LINE * count + CRASH, 3.0)
    (finding,) = Reader(store, run, job(), (), SystemClock()).replay()
    assert (finding.line, finding.offset) == (count + 2, len(LINE) * count + 25)
    await store.close()
