"""The daemon's own disk fills while a run prints: it waits, says so, and loses nothing."""

import os
import sqlite3
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.acceptance.conftest import PLAYED, MakeOrch, local_job

LINES = 120_000
PROGRAM = f"for i in range({LINES}):\n    print('line', i, 'x' * 100)\n"


@pytest.fixture
def small_disk(short_folder: Path) -> Iterator[Path]:
    """A disk of 6 MB that can be made larger."""
    disk = short_folder / "d"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=6m", "orch-test", str(disk)]
    made = subprocess.run(mount, capture_output=True, text=True, check=False)
    if made.returncode:
        if os.environ.get("CI") == "true":
            pytest.fail(f"CI must be able to mount a tmpfs: {made.stderr}")
        pytest.skip(f"no tmpfs can be mounted here: {made.stderr}")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def test_a_full_disk_here_is_waited_for(
    make_orch: MakeOrch, short_folder: Path, small_disk: Path
) -> None:
    """While the disk is full the run says so; with space again every line is stored, once."""
    package = short_folder / "pkg"
    package.mkdir()
    (package / "many.py").write_text(PROGRAM)
    inventory = local_job(short_folder, "python3 many.py").replace(str(PLAYED), str(package))
    made = make_orch(inventory)
    orch = replace(made, env={**made.env, "XDG_STATE_HOME": str(small_disk)})
    try:
        run = orch.json("run", "--detach")["run"]
        orch.until(lambda: "output_not_stored" in orch.json("show", run)["metrics"], 60)
        assert orch.json("show", run)["state"] == "running"
        grow = ["mount", "-o", "remount,size=64m", str(small_disk)]
        subprocess.run(grow, check=True)
        orch("wait", run, "--timeout", "90", timeout_s=120)
        lines = orch("logs", run, "--raw", timeout_s=90).stdout.splitlines()
        assert [line.split()[1] for line in lines] == [str(i) for i in range(LINES)]
        assert "output_not_stored" not in orch.json("show", run)["metrics"]
    finally:
        orch("daemon", "stop", check=None)


def fill(disk: Path) -> Path:
    """Take all that is left, to the last byte."""
    file = disk / "filled"
    with file.open("wb", buffering=0) as filled:
        for size in (65_536, 100):
            try:
                while filled.write(b"x" * size):
                    pass
            except OSError:
                continue
    return file


def test_reading_goes_on_and_storing_is_refused_in_words(
    make_orch: MakeOrch, short_folder: Path, small_disk: Path
) -> None:
    """Nothing is done by half; with space again the same commands work, on a whole database."""
    made = make_orch(local_job(short_folder, "python3 -m played steps --count 3000"))
    orch = replace(made, env={**made.env, "XDG_STATE_HOME": str(small_disk)})
    try:
        run = orch.json("run", "--detach")["run"]
        orch.until(lambda: "step" in orch("logs", run).stdout)
        filled = fill(small_disk)
        silence = ("silence", "add", "job=dflash", "--for", "1h", "-m", "x")
        for words in (silence, ("run", "--detach", "--replace"), ("stop", run)):
            said = orch(*words, check=1).stderr
            assert "The store cannot be written" in said, words
            assert "Free some space" in said, words
        assert orch.json("show", run)["state"] == "running"
        assert "step" in orch("logs", run).stdout
        orch("status")
        filled.unlink()
        orch(*silence)
        orch("stop", run)
        assert orch.json("show", run)["state"] == "stopped"
        assert len(orch.json("ps", "-a")["runs"]) == 1
    finally:
        orch("daemon", "stop", check=None)
    (database,) = small_disk.glob("orch/*/orch.db")
    with sqlite3.connect(database) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()


def test_no_daemon_starts_on_a_full_disk(
    make_orch: MakeOrch, short_folder: Path, small_disk: Path
) -> None:
    """It says which disk, and touches nothing; with space the run is watched on, every byte."""
    made = make_orch(local_job(short_folder, "python3 -m played steps --count 0 --pause 0.2"))
    orch = replace(made, env={**made.env, "XDG_STATE_HOME": str(small_disk)})
    try:
        run = orch.json("run", "--detach")["run"]
        orch.until(lambda: "step" in orch("logs", run).stdout)
        orch("daemon", "stop")
        filled = fill(small_disk)
        said = orch("status", check=1).stderr
        assert "No space left on device" in said
        assert str(small_disk) in said
        filled.unlink()
        assert orch.json("show", run)["state"] == "running"
        orch("stop", run)
        shown = orch.json("show", run)
        assert shown["attempt"] == 1
        written = (Path(shown["directory"]) / "attempt-1" / "output.log").read_text()
        assert orch("logs", run, "--raw").stdout == written
        assert not list(small_disk.glob("orch/*/orch.db.damaged*"))
    finally:
        orch("daemon", "stop", check=None)
