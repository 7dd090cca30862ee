"""A launch by the plain shell, from a login whose umask takes nothing away."""

import json
import stat
import subprocess
import time
from pathlib import Path

from orchestrator.link.shell_scripts import LAUNCH

SPEC = b"export MY_TOKEN=s3cret\n"
WITHIN_S = 30.0


def test_what_a_launch_goes_through_is_for_its_user_alone(tmp_path: Path) -> None:
    """Nobody else reads or writes the FIFO of its values, the folder around it or the log."""
    folder = tmp_path / "runs" / "attempt-1"
    words = ["sh", "-c", LAUNCH, "sh", str(folder), "exit 0", "{}", str(tmp_path), "true"]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, umask=0
    ) as launching:
        assert launching.stdin is not None
        launching.stdin.write(SPEC)
        launching.stdin.close()
        deadline = time.monotonic() + WITHIN_S
        while not (folder / "output.log").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        modes = {one.name: one.stat().st_mode for one in (folder.parent, *folder.iterdir())}
        assert (folder / "spec").read_bytes() == SPEC
        (folder / "attempt.json").write_text(json.dumps({"pid": 1}))
        launching.wait(WITHIN_S)
    assert stat.S_ISFIFO(modes["spec"])
    assert set(modes) == {"runs", "spec", "attempt.sh", "output.log"}
    assert {name for name, mode in modes.items() if mode & 0o077} == set()
