"""What of a folder cannot be listed is said, where all else could be copied."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

IN_ANOTHERS = """
import json, os, sys
from orchestrator.probe import copying
os.setuid(int(sys.argv[1]))
try:
    found = copying.OPS["copy_tree"]({"path": sys.argv[2]}, print)
except copying.Refused as refused:
    print(json.dumps(str(refused)))
else:
    print(json.dumps([entry["name"] for entry in found["entries"]]))
"""


def test_a_folder_that_may_not_be_read_stops_the_copy() -> None:
    """It was copied as an empty one, and the copy said that it was whole."""
    if os.getuid() != 0:
        if os.environ.get("CI") == "true":
            pytest.fail("CI must be able to become another user")
        pytest.skip("root reads every folder: only it can become another user here")
    top = Path(tempfile.mkdtemp(prefix="orch-order-"))
    try:
        top.chmod(0o755)
        (top / "closed").mkdir(mode=0o700)
        (top / "closed" / "model.pt").touch()
        words = [sys.executable, "-c", IN_ANOTHERS, str(1_900_000_000), str(top)]
        done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=60)
    finally:
        shutil.rmtree(top)
    assert done.returncode == 0, done.stderr
    assert f"{top}/closed: Permission denied" in json.loads(done.stdout)
