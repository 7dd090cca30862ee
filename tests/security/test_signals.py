"""A signal reaches the process that was meant, though another one may have its PID by now."""

import ast
import inspect
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.cli.ending_daemon import _end_by_pid
from orchestrator.probe import ending, ending_one, lock, procfs
from orchestrator.probe.belonging import Belonging
from orchestrator.probe.errors import Refused


def begun(program: "subprocess.Popen[bytes]", words: list[str]) -> int:
    """Its start, once its words can be read: for a moment after exec there are none."""
    deadline = time.monotonic() + 30
    while procfs.arguments(program.pid) != words:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    start = procfs.start_time(program.pid)
    assert start is not None
    return start


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
            ending._end_relay(folder, relay.pid, begun(relay, words) + later)
            if lives:
                with pytest.raises(subprocess.TimeoutExpired):
                    relay.wait(0.5)
            else:
                assert relay.wait(30) == -9
        finally:
            relay.kill()


@pytest.mark.parametrize("later", [0, 1])
@pytest.mark.parametrize("named", ["program", "relay's child", "orphan"])
def test_only_what_a_record_names_with_its_start_belongs_to_a_run(
    tmp_path: Path, named: str, later: int
) -> None:
    """Whoever has the PID of a program, a relay or an orphan by now is not ended with the run."""
    inner = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'input()'])"
    words = [sys.executable, "-c", inner if named == "relay's child" else "input()"]
    with subprocess.Popen(words, stdin=subprocess.PIPE) as child:
        try:
            start = begun(child, words) + later
            keys = ("relay_pid", "relay_start") if "relay" in named else ("pid", "start")
            attempt: dict[str, object] = {"boot_id": procfs.boot_id()}
            if named != "orphan":
                attempt |= dict(zip(keys, (child.pid, start), strict=True))
            (tmp_path / "attempt.json").write_text(json.dumps(attempt))
            orphans: dict[str, object] = {"boot_id": procfs.boot_id(), "orphans": []}
            if named == "orphan":
                orphans["orphans"] = [[child.pid, start]]
            (tmp_path / "exit.json").write_text(json.dumps(orphans))
            wanted = child.pid
            deadline = time.monotonic() + 30
            while "relay" in named and wanted == child.pid:
                wanted = next((pid for pid, _ in procfs.children(child.pid)), wanted)
                assert time.monotonic() < deadline
            living = Belonging("dflash-1", "uid", str(tmp_path), set()).living()
            assert (wanted in living) is not bool(later)
        finally:
            child.kill()


@pytest.fixture
def leaderless() -> Iterator[tuple[int, int, int]]:
    """A session whose leader has ended: its number, its leader's start, and who lives on in it."""
    words = ["sh", "-c", "sleep 600 & echo $!; read word"]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, start_new_session=True) as leader:
        assert leader.stdout is not None
        assert leader.stdin is not None
        member = int(leader.stdout.readline())
        start = procfs.start_time(leader.pid)
        leader.stdin.close()
        leader.wait(30)
        assert start is not None
        yield leader.pid, start, member
        os.kill(member, signal.SIGKILL)


def of_attempt(folder: Path, pid: int, start: int | None, boot_id: str) -> set[int]:
    """Who belongs to a run by the record of one attempt that names a program."""
    folder.mkdir(exist_ok=True)
    record = {"pid": pid, "start": start, "boot_id": boot_id}
    (folder / "attempt.json").write_text(json.dumps(record))
    return set(Belonging("dflash-1", "uid", str(folder), set()).living())


def test_what_a_program_left_in_its_session_is_the_runs(
    tmp_path: Path, leaderless: tuple[int, int, int]
) -> None:
    """The leader has gone, its number is taken as long as the session is there."""
    session, start, member = leaderless
    assert of_attempt(tmp_path / "attempt-1", session, start, procfs.boot_id()) == {member}


def test_after_a_reboot_a_record_names_nobody(
    tmp_path: Path, leaderless: tuple[int, int, int], child: "subprocess.Popen[bytes]"
) -> None:
    """PIDs, starts and sessions of another boot are strangers' by now, even where all are equal."""
    session, start, _ = leaderless
    assert of_attempt(tmp_path / "attempt-1", session, start, "another") == set()
    began = procfs.start_time(child.pid)
    assert of_attempt(tmp_path / "attempt-1", child.pid, began, "another") == set()
    record = {"relay_pid": os.getpid(), "relay_start": procfs.start_time(os.getpid())}
    (tmp_path / "attempt-1" / "attempt.json").write_text(json.dumps(record))
    assert Belonging("dflash-1", "uid", str(tmp_path / "attempt-1"), set()).living() == {}


def test_in_a_container_that_was_started_anew_a_session_is_a_strangers(
    tmp_path: Path, leaderless: tuple[int, int, int]
) -> None:
    """The host was not booted, but PIDs are counted anew: what is older than PID 1 has gone."""
    session, _, _ = leaderless
    before = (procfs.start_time(1) or 0) - 1
    assert of_attempt(tmp_path / "attempt-1", session, before, procfs.boot_id()) == set()


@pytest.mark.parametrize("named", ["program", "relay's child", "orphan"])
def test_what_an_earlier_attempt_left_is_the_runs(
    tmp_path: Path, named: str, child: "subprocess.Popen[bytes]"
) -> None:
    """A relaunch ends it before its own attempt has a folder; nothing in its environment tells."""
    pid, start = child.pid, procfs.start_time(child.pid)
    earlier, boot_id = tmp_path / "attempt-1", procfs.boot_id()
    earlier.mkdir()
    attempt: dict[str, object] = {"boot_id": boot_id}
    match named:
        case "program":
            attempt |= {"pid": pid, "start": start}
        case "orphan":
            orphans = {"boot_id": boot_id, "orphans": [[pid, start]]}
            (earlier / "orphans.json").write_text(json.dumps(orphans))
        case _:
            relay = os.getpid()
            attempt |= {"relay_pid": relay, "relay_start": procfs.start_time(relay)}
    (earlier / "attempt.json").write_text(json.dumps(attempt))
    living = Belonging("dflash-1", "uid", str(tmp_path / "attempt-2"), set()).living()
    assert pid in living
    assert os.getpid() not in living


def test_a_pane_that_ended_meanwhile_names_nobody(
    tmp_path: Path, child: "subprocess.Popen[bytes]"
) -> None:
    """A pane's PID is the run's as long as it is the one that was there when it was asked for."""
    panes = {child.pid, 2**22 + 1}
    belonging = Belonging("dflash-1", "uid", str(tmp_path / "attempt-1"), panes)
    assert belonging._known == {(child.pid, procfs.start_time(child.pid))}
    assert set(belonging.living()) == {child.pid}
    child.kill()
    child.wait(30)
    assert belonging.living() == {}


@pytest.mark.parametrize("later", [-1, 1])
def test_another_leader_with_the_programs_pid_is_left_alone(tmp_path: Path, later: int) -> None:
    """A session of somebody else, whose leader has another start, is not the run's."""
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as leader:
        try:
            start = procfs.start_time(leader.pid)
            assert start is not None
            folder = tmp_path / "attempt-1"
            assert of_attempt(folder, leader.pid, start, procfs.boot_id()) == {leader.pid}
            assert of_attempt(folder, leader.pid, start + later, procfs.boot_id()) == set()
        finally:
            leader.kill()


@pytest.mark.parametrize("rebooted", [False, True])
def test_a_signal_is_sent_to_no_program_of_another_boot(tmp_path: Path, rebooted: bool) -> None:
    """`signal` reaches the program of the record's own boot alone."""
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as program:
        try:
            start = procfs.start_time(program.pid)
            boot_id = "another" if rebooted else procfs.boot_id()
            record = {"pid": program.pid, "start": start, "boot_id": boot_id}
            (tmp_path / "attempt.json").write_text(json.dumps(record))
            args = {"attempt_dir": str(tmp_path), "signal": "KILL"}
            if rebooted:
                with pytest.raises(Refused, match="does not run any more"):
                    ending.send_signal(args, lambda _: None)
                assert program.poll() is None
            else:
                ending.send_signal(args, lambda _: None)
                assert program.wait(30) == -9
        finally:
            program.kill()


@pytest.mark.parametrize(
    ("key", "later", "lives"),
    [("fleet.one", 0, False), ("fleet.two", 0, True), ("fleet.one", 1, True)],
    ids=["the older probe", "another command", "another start"],
)
def test_only_an_older_probe_of_the_key_is_evicted(
    tmp_path: Path, key: str, later: int, lives: bool
) -> None:
    """What the lock's file says of its holder may be long out of date."""
    words = [sys.executable, "-c", "import time; time.sleep(600)", "fleet.one"]
    with subprocess.Popen(words) as holder:
        try:
            start = begun(holder, words) + later
            record = {"pid": holder.pid, "start": start, "generation": 1}
            (tmp_path / "x.lock").write_text(json.dumps(record))
            lock._evict(str(tmp_path / "x.lock"), key, 2, hard=True)
            if lives:
                with pytest.raises(subprocess.TimeoutExpired):
                    holder.wait(0.5)
            else:
                assert holder.wait(30) == -9
        finally:
            holder.kill()
