"""What is in a session that another run, or a person, has by now is theirs."""

from collections.abc import Callable

import pytest

from tests.probe.driver import Driver, Run, eventually

pytestmark = pytest.mark.tmux


def test_a_dead_session_that_orch_did_not_start_is_left_as_it_is(
    probe: Driver, a_run: Run, tmux: Callable[..., str]
) -> None:
    """Whoever keeps its last words on the screen finds them there after a launch that came."""
    tmux("new-session", "-d", "-s", "job", "cat")
    tmux("set-option", "-w", "-t", "job", "remain-on-exit", "on")
    tmux("send-keys", "-t", "job", "C-d")
    eventually(lambda: tmux("list-panes", "-a", "-F", "#{pane_dead}") == "1\n", "a dead pane")
    error = probe.result("launch", **a_run.spec("true"))["error"]
    assert "orch did not start it" in error["message"]
    assert tmux("list-panes", "-a", "-F", "#{session_name} #{pane_dead}") == "job 1\n"


def test_the_end_of_a_run_ends_nobody_who_has_its_session_by_now(probe: Driver, a_run: Run) -> None:
    """The next run of a job is in a session of the same name."""
    probe.call("launch", **a_run.spec("true"))
    probe.call("watch", **a_run.watch())
    probe.kind("exit")
    other = Run(a_run.root, job=a_run.job, number=2)
    probe.call("launch", **other.spec("sleep", "1000"))
    ended = probe.call("end", **a_run.end())
    (session,) = probe.call("sessions")["sessions"]
    assert (ended["ended"], session["run"], session["dead"]) == ([], other.run, False)
    assert probe.call("end", **other.end())["ended"]
