"""A real link to this machine, and a job that says a few things."""

import dataclasses
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from orchestrator.clock import SystemClock
from orchestrator.core.model import Host, Job, Run, RunState, Target
from orchestrator.launch.session import attempt_dir, launch, launch_spec
from orchestrator.link import Link
from orchestrator.transport.local import LocalTransport
from tests.conftest import TmuxCall

Launcher = Callable[[str], "AsyncLaunch"]


@dataclasses.dataclass
class AsyncLaunch:
    """A run whose program is a line of Python, on a real link."""

    link: Link
    run: Run
    job: Job

    @property
    def attempt_dir(self) -> str:
        """Of its attempt."""
        return attempt_dir(self.run)

    async def start(self) -> None:
        """Launch it in tmux."""
        Path(self.job.workdir).mkdir(exist_ok=True)
        await launch(self.link, launch_spec(self.job, self.run, None, {}))


@pytest.fixture
async def link(tmux: TmuxCall) -> AsyncIterator[Link]:
    """A probe on this machine, started and kept."""
    target = Target(name="local", host=Host(name="here", transport="local"), python=sys.executable)
    key = f"t{time.monotonic_ns()}"
    link = Link(target, LocalTransport("local"), SystemClock(), key)
    await link.start()
    yield link
    await link.close()


@pytest.fixture
def program(link: Link, tmp_path: Path) -> Launcher:
    """Makes a run of a line of Python; it is started by the test."""

    def make(code: str) -> AsyncLaunch:
        job = Job(
            name="talk",
            targets=(link.target,),
            command=(sys.executable, "-u", "-c", code),
            workdir=str(tmp_path / "work"),
            session="talk",
        )
        run = Run(
            id="talk-1",
            uid="u1",
            job="talk",
            target="local",
            number=1,
            state=RunState.STARTING,
            attempt=1,
            session="talk",
            directory=f"{job.workdir}/runs/talk-1.u1",
        )
        return AsyncLaunch(link, run, job)

    return make
