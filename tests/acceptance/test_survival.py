"""What a person relies on: a daemon that is killed loses no byte, no alert, and no run."""

import os
import signal
from collections.abc import Callable

import pytest

from tests.acceptance.conftest import Orch
from tests.lab.receiver import Answer, Received, Receiver

Story = Callable[..., Orch]


def firing(request: Received) -> bool:
    """Whether a webhook says that something is wrong."""
    return bool(request.json["status"] == "firing")


@pytest.fixture
def nursery() -> None:
    """What is killed here is a daemon as a person has it: a Python that was started."""


def kill_daemon(orch: Orch) -> None:
    """End the daemon as a crash of it would."""
    os.kill(orch.json("daemon", "status")["pid"], signal.SIGKILL)
    orch.until(lambda: orch("daemon", "status", check=None).returncode == 1)


def test_no_byte_is_lost_or_doubled_over_a_killed_daemon(story: Story) -> None:
    """Killed with -9 thrice while a run prints: the stored log has every line once, in order."""
    orch = story("python3 -m played steps --count 200 --pause 0.02")
    run = orch.json("run", "--detach")["run"]
    for _ in range(3):
        orch.until(lambda: orch.json("show", run)["log_bytes"] > 200)
        kill_daemon(orch)
    orch("wait", run, "--timeout", "60", timeout_s=90)
    lines = orch("logs", run, "--raw").stdout.splitlines()
    steps = [line.split()[1] for line in lines if line.startswith("step ")]
    assert steps == [str(step) for step in range(1, 201)]
    shown = orch.json("show", run)
    assert (shown["state"], shown["exit_code"], shown["step"]) == ("finished", 0, 200)


def test_a_crash_while_no_daemon_lives_is_alerted_by_the_next(
    story: Story, receiver: Receiver
) -> None:
    """The run crashes after the daemon was killed: the next daemon tells it, once."""
    orch = story("python3 -m played fx_race_crash --lines 300 --pause 0.01")
    run = orch.json("run", "--detach")["run"]
    orch.until(lambda: orch.json("show", run)["state"] == "running")
    kill_daemon(orch)
    orch("daemon", "start")
    orch("wait", run, "--timeout", "60", timeout_s=90, check=100)
    receiver.wait_for(where=firing)
    assert len({one.headers["webhook-id"] for one in receiver.received if firing(one)}) == 1


def test_an_alert_outlives_the_daemon_that_could_not_send_it(
    story: Story, receiver: Receiver
) -> None:
    """The receiver fails, the daemon is killed: the next daemon delivers, under the same id."""
    orch = story("python3 -m played sigkill_self")
    receiver.default = Answer(status=500)
    orch("run", check=100)
    tried = receiver.wait_for(where=firing)[0]
    kill_daemon(orch)
    receiver.default = Answer()
    before = len(receiver.received)
    orch("daemon", "start")
    receiver.wait_for(before + 1)
    assert receiver.received[-1].headers["webhook-id"] == tried.headers["webhook-id"]
    assert orch.json("show", "@1")["signal"] == 9


def test_a_stopped_daemon_leaves_the_run_alone(story: Story) -> None:
    """`daemon stop` ends the daemon only; the next one has the run again."""
    orch = story("python3 -m played steps --count 0")
    run = orch.json("run", "--detach")["run"]
    orch.until(lambda: orch.json("show", run)["state"] == "running")
    orch("daemon", "stop")
    orch("daemon", "status", check=1)
    assert orch.json("show", run)["state"] == "running"
    orch("stop", run)
    assert orch.json("show", run)["state"] == "stopped"
