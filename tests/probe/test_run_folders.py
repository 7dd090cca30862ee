"""Folders of ended runs: removed when named, never one that a living program belongs to."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from orchestrator.link.answers import wrong_answer
from orchestrator.probe.errors import OpError
from orchestrator.probe.run_folders import OPS


def pruned(workdir: Path, *names: str, dry_run: bool = False) -> dict[str, Any]:
    """The op's answer."""
    args = {"workdir": str(workdir), "names": list(names), "dry_run": dry_run}
    value: dict[str, Any] = OPS["runs_prune"](args, lambda _: None)
    assert wrong_answer("runs_prune", value) is None
    return value


@pytest.fixture
def workdir(tmp_path: Path) -> Path:
    """Three runs' folders, each with a log of a thousand bytes."""
    for name in ("a-1.x", "a-2.y", "a-3.z"):
        folder = tmp_path / "runs" / name / "attempt-1"
        folder.mkdir(parents=True)
        (folder / "log").write_bytes(bytes(1000))
    return tmp_path


def test_named_folders_go_and_others_stay(workdir: Path) -> None:
    """A dry run only says what would go; names that are not there are no error."""
    said = pruned(workdir, "a-1.x", "gone", dry_run=True)
    assert said == {"removed": [{"name": "a-1.x", "bytes": 1000}], "in_use": [], "sessions": []}
    assert len(list((workdir / "runs").iterdir())) == 3
    assert pruned(workdir, "a-1.x", "gone") == said
    assert sorted(path.name for path in (workdir / "runs").iterdir()) == ["a-2.y", "a-3.z"]


def test_folder_of_a_living_program_stays(workdir: Path) -> None:
    """What works in the folder, or was started for it, keeps it."""
    code = "import sys; print('up', flush=True); sys.stdin.read()"
    for inside in (True, False):
        env = {} if inside else {"ORCH_RUN_DIR": str(workdir / "runs" / "a-2.y")}
        with subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=workdir / "runs" / "a-2.y" if inside else workdir,
            env=env,
        ) as living:
            assert living.stdout is not None
            living.stdout.readline()
            assert pruned(workdir, "a-2.y") == {"removed": [], "in_use": ["a-2.y"], "sessions": []}
    assert pruned(workdir, "a-2.y")["removed"] != []


def test_what_a_killed_prune_left_is_swept(workdir: Path) -> None:
    """A folder renamed but not removed goes with the next prune."""
    (workdir / "runs" / "a-3.z").rename(workdir / "runs" / ".trash-a-3.z-1")
    pruned(workdir, "a-1.x")
    assert [path.name for path in (workdir / "runs").iterdir()] == ["a-2.y"]


@pytest.mark.parametrize("name", ["", ".", "..", "../x", ".trash-a", "a/b"])
def test_names_that_are_no_runs_are_refused(workdir: Path, name: str) -> None:
    """No name leads out of the folder of runs."""
    with pytest.raises(OpError, match="no name of a run's folder"):
        pruned(workdir, name)
