"""What a program tells faster than anybody reads, or tells to do harm, stays bounded."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from orchestrator.core.watch.vigil import Vigil
from orchestrator.progress import (
    LINES_AT_ONCE,
    MOST_CHARS,
    MOST_METRICS,
    PASSED_OVER,
    PHASES_AT_ONCE,
    Progress,
)
from orchestrator.store import Store
from orchestrator.testing import ManualClock
from tests.faults.test_recall import draft, job


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    """An empty store."""
    opened = await Store.open(tmp_path, ManualClock())
    yield opened
    await opened.close()


@pytest.fixture
async def progress(store: Store) -> Progress:
    """Of a new run, whose log has a number as well."""
    policy, clock = job().watch, ManualClock()
    run = await store.runs.create(draft())
    return Progress(store, run, policy, clock, Vigil(policy, clock.now(), clock.now()))


async def test_lines_that_are_passed_over_are_counted(progress: Progress) -> None:
    """Of a flood the newest lines are looked at, in the metrics file and in the log alike."""
    count = 5 * LINES_AT_ONCE
    await progress.written(b"".join(b'{"step": %d, "loss": 2.5}\n' % one for one in range(count)))
    assert progress.tally.step == count - 1
    assert progress.tally.metrics[PASSED_OVER] == count - LINES_AT_ONCE
    progress.printed(b"".join(b"speed %d\n" % one for one in range(100)), 1.0)
    assert progress.tally.metrics["speed"] == 99
    before = progress.tally.metrics[PASSED_OVER]
    assert count - LINES_AT_ONCE < before < count
    await progress.written(b'{"%s": "mine", "step": 1}\n' % PASSED_OVER.encode())
    assert progress.tally.metrics[PASSED_OVER] == before


async def test_new_words_and_long_ones_do_not_fill_the_memory(progress: Progress) -> None:
    """A program that makes up names and texts is shown as far as one can read."""
    for first in range(0, 2 * MOST_METRICS, 100):
        names = {f"m{number}": number for number in range(first, first + 100)}
        await progress.written(json.dumps(names).encode() + b"\n")
    await progress.written(json.dumps({"m1": "x" * 100_000}).encode() + b"\n")
    assert len(progress.tally.metrics) == MOST_METRICS
    assert progress.tally.metrics["m1"] == "x" * MOST_CHARS


async def test_phases_that_change_all_the_time_do_not_fill_the_timeline(
    store: Store, progress: Progress
) -> None:
    """The newest phase is known; of the changes only so many are noted."""
    lines = [b'{"phase": "%s"}\n' % name for name in (b"train", b"eval")]
    await progress.written(b"".join(lines) * PHASES_AT_ONCE)
    assert progress.tally.phase == "eval"
    noted = await store.journal.of("j-1", limit=1000)
    assert len(noted) == PHASES_AT_ONCE
