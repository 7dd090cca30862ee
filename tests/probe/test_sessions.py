"""Which tmux session a launch may take, and that a launch happens once."""

import json
import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from orchestrator.probe import ending
from tests.probe.driver import Driver, Run, eventually

pytestmark = pytest.mark.tmux


def test_a_launch_that_is_asked_for_twice_happens_once(probe: Driver, a_run: Run) -> None:
    """Also where both calls are under way at the same time."""
    spec = a_run.spec("sh", "-c", "echo started >> starts; sleep 100")
    calls = [probe.post("launch", **spec) for _ in range(3)]
    values = [probe.kind("result", id=call)["value"] for call in calls]
    assert sorted(value["already"] for value in values) == [False, True, True]
    assert len({value["pid"] for value in values}) == 1
    eventually((a_run.root / "starts").exists, "the program has begun")
    assert (a_run.root / "starts").read_text() == "started\n"


def test_a_launch_after_the_end_is_still_the_same(probe: Driver, a_run: Run) -> None:
    """A daemon that lost the answer asks again, and the attempt is not run a second time."""
    spec = a_run.spec("true")
    first = probe.call("launch", **spec)
    probe.call("watch", **a_run.watch())
    probe.kind("exit")
    again = probe.call("launch", **spec)
    assert (again["already"], again["pid"]) == (True, first["pid"])


def test_a_dead_session_of_any_orch_is_replaced(probe: Driver, a_run: Run) -> None:
    """Its attempt has ended, from whatever state folder it came."""
    probe.call("launch", **a_run.spec("true"))
    probe.call("watch", **a_run.watch())
    probe.kind("exit")
    other = Run(a_run.root, job=a_run.job, number=2)
    probe.call("launch", **other.spec("sleep", "100"))
    sessions = probe.call("sessions", socket=None)["sessions"]
    assert [(s["name"], s["run"], s["uid"], s["dead"]) for s in sessions] == [
        (a_run.job, other.run, other.uid, False)
    ]
    probe.call("end", **other.end())


def test_a_dead_session_goes_with_its_runs_folder(probe: Driver, a_run: Run) -> None:
    """Though the folder went before; what lives, and what is not named, stays."""
    gone = Run(a_run.root, job="gone", number=1)
    living = Run(a_run.root, job="living", number=1)
    for run in (a_run, gone):
        probe.call("launch", **run.spec("true"))
        probe.call("watch", **run.watch())
        probe.kind("exit")
    probe.call("launch", **living.spec("sleep", "100"))
    folders = {run.job: run.directory for run in (gone, living)}
    wanted: dict[str, Any] = {"workdir": str(folders["gone"].parent.parent)}
    wanted["names"] = [folder.name for folder in folders.values()]
    planned = probe.call("runs_prune", **wanted, dry_run=True)
    assert planned["sessions"] == ["gone"]
    shutil.rmtree(folders["gone"])
    assert probe.call("runs_prune", **wanted)["sessions"] == ["gone"]
    left = {one["name"] for one in probe.call("sessions")["sessions"]}
    assert left == {"job", "living"}
    probe.call("end", **living.end())


def test_a_pane_that_somebody_opened_beside_a_run_is_theirs(
    probe: Driver, a_run: Run, tmux: Callable[..., str]
) -> None:
    """It lives on when the run is ended, and the next attempt starts in spite of it."""
    probe.call("launch", **a_run.spec("sleep", "1000"))
    tmux("split-window", "-t", a_run.job, "sh -c 'echo mine; sleep 600'")
    theirs = _panes(tmux, "mine")
    ended = probe.call("end", **a_run.end())
    assert ended["remaining"] == []
    assert _panes(tmux, "mine") == theirs
    # As a relaunch does, before the second attempt has begun.
    assert probe.call("end", **a_run.end(number=2))["ended"] == []
    assert _panes(tmux, "mine") == theirs
    second = probe.call("launch", **a_run.spec("sleep", "1000", number=2))
    assert not second["already"]
    assert _panes(tmux, "mine") == theirs
    sessions = {one["name"]: one for one in probe.call("sessions")["sessions"]}
    assert (sessions[a_run.job]["dead"], sessions[a_run.job]["run"]) == (False, a_run.run)
    assert sessions[f"{a_run.job}-before"]["dead"]


def test_the_pid_of_a_pane_that_has_ended_names_nobody(
    probe: Driver, a_run: Run, folder: Path
) -> None:
    """The pane stays with its text for days, and its PID is given out again meanwhile."""
    asked = {**a_run.end(), "socket": f"{folder}/tmux-{os.getuid()}/default"}
    probe.call("launch", **a_run.spec("sh", "-c", "read word"))
    probe.call("watch", **a_run.watch())
    relay = json.loads((a_run.attempt() / "attempt.json").read_text())["relay_pid"]
    assert ending._pane_pids(asked) == {relay}
    probe.call("signal", attempt_dir=str(a_run.attempt()), signal="KILL")
    probe.kind("exit")
    eventually(lambda: ending._pane_pids(asked) == set(), "the pane to have ended")


def _said(run: Run, output: bytes) -> bool:
    return run.log() == output


def _panes(tmux: Callable[..., str], command: str) -> list[str]:
    """PIDs of the living panes that were started with a command."""
    lines = tmux("list-panes", "-a", "-F", "#{pane_dead} #{pane_pid} #{pane_start_command}")
    found = [line.split(" ", 2) for line in lines.splitlines()]
    return [pid for dead, pid, started in found if dead == "0" and command in started]


def test_a_live_session_of_another_run_is_refused(probe: Driver, a_run: Run) -> None:
    """The error names the run that holds it and says what to do."""
    probe.call("launch", **a_run.spec("sleep", "100"))
    other = Run(a_run.root, job=a_run.job, number=2)
    error = probe.result("launch", **other.spec("sleep", "100"))["error"]
    assert error["type"] == "Refused"
    assert error["message"] == f"The tmux session `job` belongs to {a_run.run}, which still runs."
    assert f"orch stop {a_run.run}" in error["remedy"]


def test_a_session_that_orch_did_not_start_is_refused(
    probe: Driver, a_run: Run, tmux: Callable[..., str]
) -> None:
    """Somebody's own session of that name is left as it is, dead or alive."""
    tmux("new-session", "-d", "-s", "job", "sleep 1000")
    error = probe.result("launch", **a_run.spec("true"))["error"]
    assert "orch did not start it" in error["message"]
    assert "kill-session" in error["remedy"]
    assert tmux("list-sessions", "-F", "#{session_name}") == "job\n"


def test_the_options_of_a_session_are_set_from_its_first_moment(
    probe: Driver, a_run: Run, tmux: Callable[..., str]
) -> None:
    """200 by 50, kept when dead and when nobody is attached; the user's own are as they were."""
    tmux("new-session", "-d", "-s", "mine", "sleep 1000")
    probe.call("launch", **a_run.spec("sleep", "100"))
    here = ("-t", "job", "-p", "#{window_width}x#{window_height} #{@orch_run} #{@orch_uid}")
    assert tmux("display-message", *here) == f"200x50 {a_run.run} {a_run.uid}\n"
    assert tmux("show-options", "-wv", "-t", "job", "remain-on-exit") == "on\n"
    assert tmux("show-options", "-v", "-t", "job", "destroy-unattached") == "off\n"
    assert tmux("show-options", "-wv", "-t", "mine", "remain-on-exit") == ""


def test_a_socket_of_its_own_is_used_where_it_is_named(
    probe: Driver, a_run: Run, tmux: Callable[..., str]
) -> None:
    """A target's tmux_socket keeps its sessions off the default server."""
    probe.call("launch", **a_run.spec("sleep", "100", socket="orch"))
    assert [s["name"] for s in probe.call("sessions", socket="orch")["sessions"]] == ["job"]
    assert probe.call("sessions", socket=None)["sessions"] == []
    tmux("-L", "orch", "kill-server")


def test_a_working_folder_that_is_not_there_is_refused_before_tmux_is_touched(
    probe: Driver, a_run: Run, tmux: Callable[..., str]
) -> None:
    """Nothing is started, and the folder is named."""
    error = probe.result("launch", **a_run.spec("true", cwd="/no/such/folder"))["error"]
    assert "/no/such/folder" in error["message"]
    assert tmux("list-sessions") == ""


def test_a_missing_argument_of_a_launch_is_named(probe: Driver, a_run: Run) -> None:
    """A spec that lacks a key is refused as a bad call."""
    spec = a_run.spec("true")
    del spec["uid"]
    error = probe.result("launch", **spec)["error"]
    assert (error["type"], "`uid`" in error["message"]) == ("BadCall", True)


def test_the_attempts_record_names_relay_and_program(probe: Driver, a_run: Run) -> None:
    """PIDs with their start times, the boot, the session: enough to know them again."""
    probe.call("launch", **a_run.spec("sleep", "100"))
    record = json.loads((a_run.attempt() / "attempt.json").read_text())
    assert record.keys() == {
        "run", "uid", "attempt", "session", "cwd", "relay_pid", "relay_start", "pid", "start",
        "boot_id", "started_at", "detached", "asked",
    }  # fmt: skip
    assert record["relay_pid"] != record["pid"]


def mask_of(pid: int) -> str:
    """The umask of a program, octal."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(line.split()[1] for line in lines if line.startswith("Umask:"))


def test_launches_at_once_have_the_logins_umask_and_leave_the_probes(
    start: Callable[..., Driver], a_run: Run
) -> None:
    """Others never write to what the probe makes, and programs start as their login has it."""
    before = os.umask(0o002)
    try:
        probe = start()
    finally:
        os.umask(before)
    probe.kind("hello")
    runs = [a_run, *(Run(a_run.root, job=f"other{number}") for number in range(5))]
    calls = [probe.post("launch", **run.spec("sh", "-c", "umask; sleep 100")) for run in runs]
    seen = set()

    def answered() -> bool:
        seen.add(mask_of(probe.popen.pid))
        return len([one for one in probe.frames if one.get("id") in calls]) == len(calls)

    eventually(answered, "all are launched")
    assert seen | {mask_of(probe.popen.pid)} == {"0022"}
    for run in runs:
        eventually(partial(_said, run, b"0002\r\n"), "it has said its umask")
        probe.call("end", **run.end())
