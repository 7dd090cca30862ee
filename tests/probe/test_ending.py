"""`end` leaves nothing of a run, and nothing else is touched."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from orchestrator.probe import procfs
from tests.probe.driver import Driver, Run, eventually

pytestmark = pytest.mark.tmux

TREE = """
(sleep 1000; true) &
setsid sleep 1001 &
env -u ORCH_RUN_ID -u ORCH_RUN_DIR sleep 1002 &
(trap '' TERM; setsid sh -c 'trap "" TERM; while :; do sleep 0.1; done') &
echo ready
wait
"""


def test_the_whole_tree_of_a_run_is_ended(probe: Driver, a_run: Run) -> None:
    """Descendants, those with a session of their own, and those that ignore SIGTERM."""
    probe.call("launch", **a_run.spec("bash", "-c", TREE))
    probe.call("watch", **a_run.watch())
    probe.until_stream(a_run.run, lambda log: b"ready" in log)
    eventually(lambda: len(_carriers(a_run)) >= 5, "the tree is up")
    ended = probe.call("end", **a_run.end(grace_s=1.0))
    assert ended["remaining"] == []
    assert len(ended["ended"]) >= 5
    assert _carriers(a_run) == []
    left = [procfs.stat(pid) for pid in ended["ended"]]
    assert all(entry is None or entry.state == procfs.ZOMBIE for entry in left)
    assert probe.kind("exit")["record"]["signal"] == 15


def _carriers(run: Run) -> list[int]:
    """PIDs that carry the run in their environment."""
    living = [entry.pid for entry in procfs.every() if entry.state != procfs.ZOMBIE]
    folder = str(run.directory)
    return [pid for pid in living if procfs.environment(pid).get("ORCH_RUN_DIR") == folder]


DAEMON = """
import os, signal, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for fd in (0, 1, 2):
            os.close(fd)
        os.execve("/bin/sleep", ["sleep", sys.argv[1]], {})
    os._exit(0)
os.wait()
print("ready", flush=True)
time.sleep(float(sys.argv[2]))
"""


def _sleepers(word: str) -> list[int]:
    """PIDs of `sleep WORD` that live."""
    living = [entry.pid for entry in procfs.every() if entry.state != procfs.ZOMBIE]
    return [pid for pid in living if procfs.command_line(pid) == f"sleep {word}"]


def test_a_daemon_that_hides_from_its_run_is_ended_with_it(
    probe: Driver, a_run: Run, python: str
) -> None:
    """Forked twice, in a session of its own, with an empty environment, and no parent but one."""
    word = f"1000.{os.getpid()}1"
    probe.call("launch", **a_run.spec(python, "-c", DAEMON, word, "1000"))
    probe.call("watch", **a_run.watch())
    probe.until_stream(a_run.run, lambda log: b"ready" in log)
    (hidden,) = eventually(lambda: _sleepers(word), "the daemon is up")
    ended = probe.call("end", **a_run.end(grace_s=5.0))
    assert (hidden in ended["ended"], ended["remaining"]) == (True, [])
    assert _sleepers(word) == []


def test_a_daemon_that_outlived_its_run_is_still_known_as_the_runs(
    probe: Driver, a_run: Run, python: str
) -> None:
    """The relay has gone by then; what it wrote down names it, PID and start."""
    word = f"1000.{os.getpid()}2"
    probe.call("launch", **a_run.spec(python, "-c", DAEMON, word, "0"))
    probe.call("watch", **a_run.watch())
    assert probe.kind("exit")["record"]["code"] == 0
    (hidden,) = _sleepers(word)
    ended = probe.call("end", **a_run.end(grace_s=5.0))
    assert (ended["ended"], ended["remaining"]) == ([hidden], [])
    assert _sleepers(word) == []


def test_a_daemon_is_still_known_once_the_relay_was_killed(
    probe: Driver, a_run: Run, python: str
) -> None:
    """What hides from the run is ended with it also where nobody could write an exit record."""
    word = f"1000.{os.getpid()}3"
    probe.call("launch", **a_run.spec(python, "-c", DAEMON, word, "1000"))
    probe.call("watch", **a_run.watch())
    probe.until_stream(a_run.run, lambda log: b"ready" in log)
    (hidden,) = eventually(lambda: _sleepers(word), "the daemon is up")
    relay = json.loads((a_run.attempt() / "attempt.json").read_text())["relay_pid"]
    eventually(lambda: str(hidden) in _text(a_run.attempt() / "orphans.json"), "it is noted")
    os.kill(relay, signal.SIGKILL)
    assert probe.kind("gone")["reason"] == "relay_ended"
    ended = probe.call("end", **a_run.end(grace_s=5.0))
    assert (hidden in ended["ended"], ended["remaining"]) == (True, [])
    assert _sleepers(word) == []


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def test_orphans_that_end_do_not_pile_up_under_the_relay(probe: Driver, a_run: Run) -> None:
    """Whoever adopts must reap; the program's own end is told right all the same."""
    program = "for n in 1 2 3 4 5; do (sleep 0.2 &) ; done; echo ready; sleep 1000"
    probe.call("launch", **a_run.spec("bash", "-c", program))
    probe.call("watch", **a_run.watch())
    probe.until_stream(a_run.run, lambda log: b"ready" in log)
    relay = json.loads((a_run.attempt() / "attempt.json").read_text())["relay_pid"]

    def children() -> list[procfs.Stat]:
        return [entry for entry in procfs.every() if entry.parent == relay]

    eventually(lambda: len(children()) == 1, "the relay has but the program")
    probe.call("signal", attempt_dir=str(a_run.attempt()), signal="KILL")
    assert probe.kind("exit")["record"]["signal"] == 9


def test_a_program_that_saves_on_sigterm_may_use_its_children(probe: Driver, a_run: Run) -> None:
    """Only the top is told at first: its workers live until it has ended."""
    program = """
sleep 1000 & worker=$!
trap 'kill -0 $worker && echo saved with its worker; exit 143' TERM
echo ready
while :; do sleep 0.05; done
"""
    probe.call("launch", **a_run.spec("bash", "-c", program))
    probe.call("watch", **a_run.watch())
    probe.until_stream(a_run.run, lambda log: b"ready" in log)
    ended = probe.call("end", **a_run.end(grace_s=20.0))
    assert ended["remaining"] == []
    assert probe.kind("exit")["record"]["code"] == 143
    assert b"saved with its worker" in probe.stream(a_run.run)


def test_a_stopped_program_is_ended_too(probe: Driver, a_run: Run) -> None:
    """A SIGSTOP does not save it from a SIGTERM that it could otherwise act on."""
    probe.call("launch", **a_run.spec("sh", "-c", "echo ready; sleep 1000; echo no"))
    probe.call("watch", **a_run.watch())
    probe.until_stream(a_run.run, lambda log: b"ready" in log)
    probe.call("signal", attempt_dir=str(a_run.attempt()), signal="STOP")
    assert probe.call("end", **a_run.end(grace_s=20.0))["remaining"] == []
    assert probe.kind("exit")["record"]["signal"] == 15


def test_a_run_of_the_same_name_from_another_state_folder_is_left_alone(
    probe: Driver, a_run: Run, folder: Path
) -> None:
    """Run ids repeat between state folders; the folder with its random part does not."""
    env = {**os.environ, "ORCH_RUN_ID": a_run.run, "ORCH_RUN_DIR": f"/srv/{a_run.run}.other"}
    with subprocess.Popen(["sleep", "1000"], env=env) as namesake:
        probe.call("launch", **a_run.spec("sleep", "1000"))
        ended = probe.call("end", **a_run.end())
        alive = namesake.poll() is None
        namesake.kill()
    assert alive
    assert namesake.pid not in ended["ended"]


def test_the_end_of_what_has_ended_is_no_error(probe: Driver, a_run: Run) -> None:
    """Asked again, or for an attempt that is over, it has nothing to do."""
    probe.call("launch", **a_run.spec("true"))
    probe.call("watch", **a_run.watch())
    probe.kind("exit")
    ended = probe.call("end", **a_run.end())
    assert (ended["ended"], ended["remaining"]) == ([], [])


def test_an_orphan_of_a_dead_relay_is_ended(probe: Driver, a_run: Run) -> None:
    """The relay was killed, its program lives on without a terminal, and is still the run's."""
    probe.call("launch", **a_run.spec("sh", "-c", "trap '' HUP; echo ready; sleep 1000"))
    probe.call("watch", **a_run.watch())
    probe.until_stream(a_run.run, lambda log: b"ready" in log)
    record = json.loads((a_run.attempt() / "attempt.json").read_text())
    os.kill(record["relay_pid"], 9)
    probe.kind("gone")
    assert len(probe.call("end", **a_run.end())["ended"]) >= 1


def test_a_signal_that_cannot_be_sent_is_refused(probe: Driver, a_run: Run) -> None:
    """Neither an unknown signal nor a program that is gone goes unnoticed."""
    probe.call("launch", **a_run.spec("sleep", "1000"))
    error = probe.result("signal", attempt_dir=str(a_run.attempt()), signal="NOPE")["error"]
    assert error["type"] == "BadCall"
    probe.call("end", **a_run.end())
    error = probe.result("signal", attempt_dir=str(a_run.attempt()), signal="TERM")["error"]
    assert "does not run any more" in error["message"]
