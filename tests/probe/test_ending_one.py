"""`end_pid` ends the process that was shown, and none that has its PID by now."""

import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from orchestrator.probe import procfs
from orchestrator.probe.ending_one import end_pid
from orchestrator.probe.errors import Refused
from orchestrator.probe.frames import Frame

STUBBORN = (
    "import signal, time; signal.signal(15, signal.SIG_IGN); print(flush=True); time.sleep(600)"
)


@pytest.fixture
def child() -> Iterator["subprocess.Popen[bytes]"]:
    """A program that ignores SIGTERM, and says when it does."""
    started = subprocess.Popen([sys.executable, "-c", STUBBORN], stdout=subprocess.PIPE)
    assert started.stdout is not None
    started.stdout.readline()
    yield started
    started.kill()
    started.wait()
    started.stdout.close()


def shown(pid: int) -> Frame:
    """A process as the list of a GPU has it."""
    return {"pid": pid, "start": procfs.start_time(pid), "command": procfs.command_line(pid)}


def test_what_ignores_sigterm_is_killed(child: "subprocess.Popen[bytes]") -> None:
    """After the grace nothing is asked any more."""
    assert end_pid({**shown(child.pid), "grace_s": 0.2}, lambda _: None) == {"ended": True}
    assert child.wait(10) == -9


@pytest.mark.parametrize("wrong", [{"start": 1}, {"command": "python3 train.py"}])
def test_another_one_with_the_pid_is_left_alone(
    child: "subprocess.Popen[bytes]", wrong: Frame
) -> None:
    """A start or a command that is not the shown one's: refused with its name, nothing sent."""
    with pytest.raises(Refused, match=r"is another one now: .*Nothing was sent"):
        end_pid({**shown(child.pid), **wrong}, lambda _: None)
    time.sleep(0.1)
    assert child.poll() is None


def test_what_is_gone_is_said(child: "subprocess.Popen[bytes]") -> None:
    """An ended process needs nothing more, and PID 1 is never touched."""
    said = shown(child.pid)
    child.kill()
    child.wait()
    with pytest.raises(Refused, match="is gone"):
        end_pid(said, lambda _: None)
    with pytest.raises(Refused, match="is not to be ended"):
        end_pid({"pid": 1, "start": 1, "command": "init"}, lambda _: None)
