"""A program that floods its metrics file: its end, and other runs, are seen as soon as ever."""

import contextlib
import os
import time
from pathlib import Path

from orchestrator.store.logs import Logs
from tests.acceptance.conftest import MakeOrch, local_job

LINES = 2_300_000
ENDS_WITHIN_S = 20.0
"""Storing takes about two; looking at each line by itself would take more than thirty."""

FLOOD = """
import os, sys
from pathlib import Path
line = b'{{"t": %d, "step": %d, "loss": 2.5, "phase": "train"}}\\n'
with open(os.environ["ORCH_RUN_DIR"] + "/metrics.jsonl", "ab", buffering=1 << 20) as metrics:
    for step in range({lines}):
        metrics.write(line % (1800000000 + step, step))
"""


def test_end_is_told_although_metrics_were_flooded(make_orch: MakeOrch, short_folder: Path) -> None:
    """All lines are stored, how many were passed over is said, and no file stays open."""
    (short_folder / "flood.py").write_text(FLOOD.format(lines=LINES))
    orch = make_orch(local_job(short_folder, f"python3 {short_folder}/flood.py"))
    orch("daemon", "start")
    run = orch.json("run", "--detach")["run"]
    orch.until(lambda: orch.json("show", run)["ended_at"], timeout_s=150.0)
    late_s = time.time() - orch.json("show", run)["ended_at"]
    assert late_s < ENDS_WITHIN_S
    shown = orch.json("show", run)
    assert (shown["state"], shown["step"]) == ("finished", LINES - 1)
    assert 0 < shown["metrics"]["metric_lines_passed_over"] < LINES
    place = orch.json("daemon", "status")
    orch.until(lambda: not opened_of(place["pid"], run))
    stored = Logs(Path(place["state_folder"]) / "metrics")
    kept = b"".join(part for _, part in stored.parts(run, 0))
    assert kept == (Path(shown["directory"]) / "metrics.jsonl").read_bytes()


def opened_of(pid: int, run: str) -> list[str]:
    """The files of a run that the daemon holds open."""
    found = []
    for one in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found.append(os.readlink(one))
    return [one for one in found if f"/{run}/" in one]
