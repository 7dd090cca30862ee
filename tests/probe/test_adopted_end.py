"""How an adopted program ended is known where tmux saw it, however late tmux gets its turn."""

import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from orchestrator.probe import procfs
from tests.probe.driver import Driver, Run, eventually

pytestmark = pytest.mark.tmux


@contextmanager
def standing_still(pid: int) -> Iterator[None]:
    """A program gets no turn meanwhile."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def test_a_tmux_that_is_late_is_waited_for(
    probe: Driver, a_run: Run, tmux: Callable[..., str], folder: Path
) -> None:
    """A server that stands still while the program ends tells its exit code once it goes on."""
    program = f"until test -e {folder}/go; do sleep 0.05; done; echo bye; exit 7"
    tmux("new-session", "-d", "-s", "theirs", program)
    pid = int(tmux("list-panes", "-t", "theirs", "-F", "#{pane_pid}"))
    a_run.attempt().mkdir()
    names = ("run", "uid", "attempt", "attempt_dir")
    spec = {name: value for name, value in a_run.spec("x").items() if name in names}
    probe.call("adopt", **spec, session="theirs", what="theirs")
    probe.call("watch", **a_run.watch())
    relay = json.loads((a_run.attempt() / "attempt.json").read_text())["relay_pid"]
    with standing_still(int(tmux("display-message", "-p", "#{pid}"))):
        (folder / "go").touch()
        eventually(lambda: not procfs.lives(pid, procfs.start_time(pid) or 0), "its end")
        first = eventually(lambda: procfs.children(relay), "tmux to be asked")
        eventually(lambda: procfs.children(relay) not in ([], first), "tmux to be asked again")
    assert probe.kind("exit")["record"]["code"] == 7
    assert probe.stream(a_run.run).endswith(b"bye\r\n")


@pytest.mark.parametrize("marked", ["theirs", "ours"])
def test_a_pane_that_does_not_bear_the_runs_marks_is_not_ended(
    probe: Driver, a_run: Run, tmux: Callable[..., str], marked: str
) -> None:
    """What was adopted is known by a PID, which after a reboot may be that of another pane."""
    tmux("new-session", "-d", "-s", "theirs", "sleep 1000")
    pid = int(tmux("list-panes", "-t", "theirs", "-F", "#{pane_pid}"))
    if marked == "ours":
        for name, value in (("@orch_run", a_run.run), ("@orch_uid", a_run.uid)):
            tmux("set-option", "-p", "-t", "theirs", name, value)
    a_run.attempt().mkdir()
    (a_run.attempt() / "adoption.json").write_text(json.dumps({"pane_pid": pid}))
    wanted = [pid] if marked == "ours" else []
    assert probe.call("end", **a_run.end())["ended"] == wanted
    assert procfs.lives(pid, procfs.start_time(pid) or 0) is (marked == "theirs")
