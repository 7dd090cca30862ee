"""Fixtures: the probe as one file, a Python 3.10 to run it, and a tmux socket of its own."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from orchestrator.link.package import probe_package
from tests.probe.driver import Driver, Run, python310


@pytest.fixture(scope="session")
def pyz(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The probe as it is shipped."""
    path = tmp_path_factory.mktemp("probe") / "probe.pyz"
    path.write_bytes(probe_package().content)
    return path


@pytest.fixture(params=["3.10"])
def python(request: pytest.FixtureRequest) -> str:
    """The interpreter that the probe runs on: the oldest, unless a test asks for ours as well."""
    if request.param == "current":
        return sys.executable
    found = python310()
    if found is None:
        if os.environ.get("CI"):
            pytest.fail("CI needs a Python 3.10 for the probe's tests")
        pytest.skip("no Python 3.10 here (pyenv, PATH and uv were searched)")
    return found


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short path: a tmux socket in it must stay under 108 bytes."""
    path = Path(tempfile.mkdtemp(prefix="orch-probe-", dir="/tmp"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def tmux(folder: Path) -> Iterator[Callable[..., str]]:
    """Runs tmux on a socket of its own, whose server is ended afterwards."""
    env = {**os.environ, "TMUX_TMPDIR": str(folder)}
    env.pop("TMUX", None)

    def run(*words: str) -> str:
        done = subprocess.run(
            ["tmux", *words], check=False, env=env, capture_output=True, text=True
        )
        return done.stdout

    yield run
    run("kill-server")


@pytest.fixture
def start(
    python: str, pyz: Path, folder: Path, tmux: Callable[..., str]
) -> Iterator[Callable[..., Driver]]:
    """Starts probes that end with the test."""
    env = {"PATH": os.environ["PATH"], "TMUX_TMPDIR": str(folder), "STRAY": "must not reach a run"}
    drivers: list[Driver] = []

    def begin(**options: object) -> Driver:
        options.setdefault("key", folder.name)
        drivers.append(Driver(python, pyz, env, **options))  # type: ignore[arg-type]
        return drivers[-1]

    yield begin
    for driver in drivers:
        driver.close()
    for lock in Path(f"/tmp/orch-{os.getuid()}").glob(f"{folder.name}*.lock"):
        lock.unlink()


@pytest.fixture
def probe(start: Callable[..., Driver]) -> Driver:
    """One probe that has said hello."""
    driver = start()
    driver.kind("hello")
    return driver


@pytest.fixture
def a_run(folder: Path, start: Callable[..., Driver]) -> Iterator[Run]:
    """A run whose programs are all ended afterwards, whatever the test did."""
    run = Run(folder)
    yield run
    sweeper = start(generation=1_000)
    for attempt in run.directory.iterdir():
        if attempt.is_dir():
            sweeper.call("end", **{**run.end(int(attempt.name), grace_s=0.0), "session": None})
