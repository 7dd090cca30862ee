"""A run's number is never used again, also where everything that was known of it is gone."""

import os
import shutil
import signal
from pathlib import Path

from tests.acceptance.conftest import MakeOrch, local_job


def test_numbers_go_on_after_the_state_folder_was_lost(
    make_orch: MakeOrch, short_folder: Path
) -> None:
    """What the target has of earlier runs counts, of this job alone."""
    orch = make_orch(local_job(short_folder, "sleep 0.1"))
    for number in (1, 2):
        orch("run")
        assert orch.json("show", "@1")["id"] == f"dflash-{number}"
    (short_folder / "w" / "runs" / "dflash-big-9.uid").mkdir()
    lose(orch.json("daemon", "status"))
    assert orch.json("run")["id"] == "dflash-3"
    assert orch.json("run")["id"] == "dflash-4"


def test_numbers_go_on_where_only_the_database_was_lost(
    make_orch: MakeOrch, short_folder: Path
) -> None:
    """Also before the lost runs are back, and where their folders on the target are gone."""
    orch = make_orch(local_job(short_folder, "sleep 0.1"))
    orch("run")
    place = orch.json("daemon", "status")
    os.kill(place["pid"], signal.SIGKILL)
    for path in Path(place["state_folder"]).glob("orch.db*"):
        path.unlink()
    shutil.rmtree(short_folder / "w" / "runs")
    assert orch.json("run")["id"] == "dflash-2"


def lose(place: dict[str, str]) -> None:
    """A daemon dies, and its state folder with it."""
    os.kill(int(place["pid"]), signal.SIGKILL)
    shutil.rmtree(place["state_folder"])
