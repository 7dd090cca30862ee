"""The state folder, or the database in it, removed under a daemon that lives."""

import os
import shutil
import signal
from pathlib import Path

import pytest

from orchestrator.probe import procfs
from tests.acceptance.conftest import MakeOrch, Orch, local_job

STORY = """
import os, sys, time
while os.path.isdir(os.path.dirname(sys.argv[1])) and not os.path.exists(sys.argv[1]):
    time.sleep(0.05)
"""


@pytest.fixture
def orch(make_orch: MakeOrch, short_folder: Path) -> Orch:
    """A project whose job runs until it may end."""
    (short_folder / "story.py").write_text(STORY)
    command = f"python3 {short_folder}/story.py {short_folder}/finish"
    return make_orch(local_job(short_folder, command))


def ended(pid: int) -> bool:
    """Whether a process has gone."""
    found = procfs.stat(pid)
    return found is None or found.state == procfs.ZOMBIE


def test_a_database_removed_under_the_daemon_comes_back(orch: Orch, short_folder: Path) -> None:
    """The daemon says so and ends by itself; the next one has the run, and a stop means it."""
    (short_folder / "finish").touch()
    orch("run")
    (short_folder / "finish").unlink()
    live = orch.json("run", "--detach")["run"]
    orch.until(lambda: orch.json("show", live)["state"] == "running")
    place = orch.json("daemon", "status")
    for path in Path(place["state_folder"]).glob("orch.db*"):
        path.unlink()
    refused = orch("run", "--detach", "--replace", check=None)
    assert refused.returncode != 0
    assert "removed or replaced" in refused.stderr
    orch.until(lambda: ended(place["pid"]))
    assert "state.lost" in orch.log()
    assert f"stopping {live}" in orch("stop", "dflash").stderr
    assert orch.json("show", live)["state"] == "stopped"


def test_what_was_said_to_a_daemon_without_its_database_is_not_taken(orch: Orch) -> None:
    """A silence that is answered with success is there afterwards, or it was refused."""
    place = orch.json("daemon", "start")
    for path in Path(orch.json("daemon", "status")["state_folder"]).glob("orch.db*"):
        path.unlink()
    said = orch("silence", "add", "job=dflash", "--for", "1h", check=None)
    orch.until(lambda: ended(place["pid"]))
    taken = orch.json("silence", "ls")["silences"]
    assert len(taken) == (said.returncode == 0)


def test_a_state_folder_removed_under_the_daemon_ends_it(orch: Orch) -> None:
    """Nobody has to ask for anything: it would watch what nobody is ever told of."""
    place = orch.json("daemon", "start")
    shutil.rmtree(place["state_folder"])
    try:
        orch.until(lambda: ended(place["pid"]))
    finally:
        if not ended(place["pid"]):
            os.kill(place["pid"], signal.SIGTERM)
    assert orch.json("daemon", "start")["pid"] != place["pid"]


def test_a_run_whose_state_was_lost_can_be_stopped_as_is_said(orch: Orch) -> None:
    """The remedy that a new run names ends the one that nobody here knows any more."""
    live = orch.json("run", "--detach")["run"]
    orch.until(lambda: orch.json("show", live)["state"] == "running")
    place = orch.json("daemon", "status")
    orch("daemon", "stop")
    shutil.rmtree(place["state_folder"])
    refused = orch("run", "--detach", check=None)
    assert refused.returncode != 0
    assert f"orch stop {live} --target" in " ".join((refused.stdout + refused.stderr).split())
    orch("stop", live, "--target", "local")
    orch("run", "--detach")
    orch("stop", "dflash")
