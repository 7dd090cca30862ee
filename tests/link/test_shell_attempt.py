"""What a plain shell keeps of its attempt is what a probe that comes later can go by."""

import json
import os
import subprocess
from pathlib import Path

import orchestrator.link
from orchestrator.probe.procfs import start_time

SCRIPT = Path(orchestrator.link.__file__).with_name("attempt.sh")


def test_the_record_tells_the_pid_of_the_shell_from_a_later_bearer(tmp_path: Path) -> None:
    """A PID comes again; with its start it does not, and a stop ends nobody else's session."""
    os.mkfifo(tmp_path / "spec")
    argv = ["sh", str(SCRIPT), str(tmp_path), '"run":"a-1"']
    with (tmp_path / "output.log").open("wb") as log:
        shell = subprocess.Popen(argv, stdout=log)
    try:
        # Opened for writing by us: the shell waits for its end, and lives meanwhile.
        with (tmp_path / "spec").open("w") as spec:
            start = start_time(shell.pid)
            spec.write("exit 3")
        assert shell.wait(30) == 3
    finally:
        shell.kill()
        shell.wait()
    record = json.loads((tmp_path / "attempt.json").read_text())
    assert (record["run"], record["pid"], record["start"]) == ("a-1", shell.pid, start)
    assert start
