"""The turns of copies where there is no place to keep one, or somebody removed it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.probe import copy_turns
from orchestrator.probe.ops import Progress

IN_ANOTHERS = """
import json, os, sys
from orchestrator.probe import copy_turns
os.setuid(int(sys.argv[1]))
args = {"path": "/tmp/to"}
answers = [copy_turns.copy_hold(args, print), copy_turns.copy_let_go(args, print)]
print(json.dumps(answers))
"""


def open_turns() -> list[str]:
    """Files of turns that this process has open."""
    found: list[str] = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{fd}"))
        except FileNotFoundError:
            continue  # that of the listing itself
    return [path for path in found if "/copy-" in path]


def silent() -> Progress:
    """Nobody listens."""
    return lambda _: None


def test_a_folder_of_locks_that_another_user_made_stops_no_copy() -> None:
    """Whoever makes /tmp/orch-UID first kept that user from copying anything to this machine."""
    if os.getuid() != 0:
        if os.environ.get("CI") == "true":
            pytest.fail("CI must be able to become another user")
        pytest.skip("only root can become another user")
    uid = 1_900_000_000 + os.getpid() % 100_000_000
    planted = Path(f"/tmp/orch-{uid}")
    planted.mkdir()
    try:
        words = [sys.executable, "-c", IN_ANOTHERS, str(uid)]
        done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=60)
    finally:
        planted.rmdir()
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [{"held": True}, {}]


def test_a_turn_whose_file_is_gone_can_be_given_back(tmp_path: Path) -> None:
    """Who tidies /tmp removes it: the copy was done, and failed all the same."""
    args = {"path": str(tmp_path / "to")}
    assert copy_turns.copy_hold(args, silent()) == {"held": True}
    (turn,) = open_turns()
    os.unlink(turn)
    assert copy_turns.copy_let_go(args, silent()) == {}
    assert not open_turns()


def test_a_turn_that_somebody_else_has_by_now_is_left(tmp_path: Path) -> None:
    """Behind a tidied /tmp another copy took a fresh file: a third one was let in beside it."""
    args = {"path": str(tmp_path / "to")}
    assert copy_turns.copy_hold(args, silent()) == {"held": True}
    (turn,) = open_turns()
    os.unlink(turn)
    Path(turn).touch()
    try:
        assert copy_turns.copy_let_go(args, silent()) == {}
        assert Path(turn).exists()
    finally:
        os.unlink(turn)
