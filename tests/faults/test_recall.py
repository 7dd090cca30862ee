"""What a daemon had stored and not yet counted when it died is counted by the next one."""

import sys
from pathlib import Path

from orchestrator.clock import SystemClock
from orchestrator.core.model import Host, Job, Run, RunState, Target, WatchPolicy
from orchestrator.reading import Reader
from orchestrator.store import Store

LINES = b'{"t": 1.0, "step": 7, "loss": 0.5, "phase": "train"}\n{"t": 2.0, "step": 8, "lo'


def job() -> Job:
    """A job whose log has a number as well."""
    target = Target(name="local", host=Host(name="here", transport="local"), python=sys.executable)
    watch = WatchPolicy(metrics={"speed": r"speed (?P<value>\S+)"})
    return Job(name="j", targets=(target,), command="true", workdir="/w", watch=watch)


def draft() -> Run:
    """A run of that job, as it is before it has a number."""
    return Run(
        id="",
        uid="u",
        job="j",
        target="local",
        number=0,
        state=RunState.RUNNING,
        attempt=1,
        session="j",
        directory="/w/runs/{id}.u",
    )


async def test_stored_and_uncounted_lines_are_read_again(tmp_path: Path) -> None:
    """The step of the last chunk and a number of the log are there, before anything new comes."""
    store = await Store.open(tmp_path, SystemClock())
    run = await store.runs.create(draft())
    # As a daemon leaves it that dies between storing a chunk and counting its lines.
    store.metrics.append(run.id, 0, 0, LINES, 3.0)
    store.logs.append(run.id, 1, 0, b"speed 12.5\nspee", 3.0)
    reader = Reader(store, run, job(), (), SystemClock())
    reader.replay()
    assert (reader.tally.step, reader.tally.loss, reader.tally.phase) == (7, 0.5, "train")
    assert reader.tally.metrics["speed"] == 12.5
    await store.close()
