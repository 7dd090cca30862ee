"""A signal reaches the process that was meant, though another one may have its PID by now."""

import ast
import inspect
import subprocess
import sys
from collections.abc import Iterator

import pytest

from orchestrator.cli.ending_daemon import _end_by_pid
from orchestrator.probe import ending, ending_one, procfs


@pytest.fixture
def child() -> Iterator["subprocess.Popen[bytes]"]:
    """A program that nobody meant."""
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as started:
        yield started
        started.kill()


def test_one_process_is_signalled_by_its_descriptor_alone() -> None:
    """From the check on nothing of `end_pid` names it by its PID, which may be given out again."""
    tree = ast.parse(inspect.getsource(ending_one))
    called = {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    assert "signal.pidfd_send_signal" in called
    assert [name for name in called if "kill" in name] == []


def test_whoever_has_the_daemons_pid_by_now_is_left_alone(
    child: "subprocess.Popen[bytes]",
) -> None:
    """A daemon that ended while it was asked is told as ended, and its successor lives on."""
    start = procfs.start_time(child.pid)
    assert start is not None
    said = _end_by_pid(child.pid, start - 1)
    assert "ended" in said
    with pytest.raises(subprocess.TimeoutExpired):
        child.wait(0.5)


@pytest.mark.parametrize(
    ("folder", "later", "lives"),
    [("/srv/run/1", 0, False), ("/srv/run/2", 0, True), ("/srv/run/1", 1, True)],
    ids=["the relay", "another command", "another start"],
)
def test_a_relay_is_killed_only_where_it_is_the_one(folder: str, later: int, lives: bool) -> None:
    """The record lay open to the program: its PID, start and command line must all be a relay's."""
    words = [sys.executable, "-c", "import time; time.sleep(600)", "/srv/run/1"]
    with subprocess.Popen(words) as relay:
        try:
            start = procfs.start_time(relay.pid)
            assert start is not None
            ending._end_relay(folder, relay.pid, start + later)
            if lives:
                with pytest.raises(subprocess.TimeoutExpired):
                    relay.wait(0.5)
            else:
                assert relay.wait(30) == -9
        finally:
            relay.kill()
