"""The plain shell reads nothing that a program put in the place of a file of its run."""

import os
import subprocess
from pathlib import Path

import pytest

from orchestrator.link.shell_scripts import LOOK


@pytest.mark.parametrize("what", ["link", "fifo"])
def test_a_look_reads_no_link_and_waits_for_no_fifo(tmp_path: Path, what: str) -> None:
    """Neither as log, nor as record, nor as metrics; the answer is that there is nothing."""
    attempt = tmp_path / "1"
    attempt.mkdir()
    victim = tmp_path / "victim"
    victim.write_text("not for the run")
    metrics = tmp_path / "metrics.jsonl"
    for place in (attempt / "output.log", attempt / "exit.json", metrics):
        if what == "link":
            place.symlink_to(victim)
        else:
            os.mkfifo(place)
    words = ["sh", "-c", LOOK, "sh", str(attempt), "0", str(metrics), "0", "1000"]
    said = subprocess.run(words, capture_output=True, timeout=30, check=True).stdout.decode()
    head, record, *rest = said.split("\n")
    assert head.split()[1:5] == ["0", "0", "0", "0"]
    assert (record, rest) == ("", [""])
