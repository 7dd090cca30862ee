"""The command line and the daemon that it starts, as a person has them on a fresh machine."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from orchestrator.api.location import locate
from orchestrator.cli.reach import running_client
from orchestrator.probe import procfs
from tests.cli.conftest import Ran, spawn
from tests.conftest import TmuxCall

Orch = Callable[..., Ran]
DEADLINE_S = 50.0

CRASH = """\
import os, sys, threading, time
print("begun", flush=True)
if "--slow" in sys.argv:
    for number in range(40):
        print("line", number, flush=True)
        time.sleep(0.1)
        while number == 20 and not os.path.exists(sys.argv[-1]):
            time.sleep(0.05)
elif "--fine" not in sys.argv:
    def draft():
        raise RuntimeError("Detected that you are using FX to symbolically trace"
                           " a dynamo-optimized function. This is not supported at the moment.")
    thread = threading.Thread(target=draft, name="draft")
    thread.start()
    thread.join()
    sys.exit(1)
"""


@pytest.fixture
def no_daemon_left(project: Path) -> Iterator[Path]:
    """The project's inventory; whatever daemon a test starts for it ends with the test."""
    yield project / "inventory.yaml"
    (project / "inventory.yaml").write_text("version: 1\n")
    done = subprocess.run(
        [sys.executable, "-m", "orchestrator", "daemon", "stop"],
        cwd=project,
        capture_output=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture
def job(no_daemon_left: Path, short_folder: Path, tmux: TmuxCall) -> str:
    """A job of the project, on this machine, whose tmux sessions end with the test."""
    package = no_daemon_left.parent / "pkg"
    package.mkdir()
    (package / "main.py").write_text(CRASH)
    no_daemon_left.write_text(
        "version: 1\nhosts: {here: {transport: local}}\n"
        f"targets: {{local: {{host: here, python: {sys.executable}}}}}\n"
        f"jobs:\n  toy: {{target: local, package: pkg, workdir: {short_folder / 'w'},"
        " command: [python3, main.py]}\n"
    )
    return "toy"


def finished(*words: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of `orch WORDS` in a process of its own."""
    process = spawn(*words)
    out, err = process.communicate(timeout=DEADLINE_S)
    return process.returncode, out.decode(), err.decode()


def test_bad_inventory_starts_nothing_and_touches_nothing(project: Path, orch: Orch) -> None:
    """Each fault is a line, the code is 2, and no state folder is made."""
    inventory = (project / "inventory.yaml").resolve()
    inventory.write_text("version: 1\nhosts:\n  a: {prot: 22}\ntargets:\n  b: {host: c}\n")
    ran = orch("ps")
    assert ran.code == 2
    assert ran.err.splitlines()[0].startswith(f"{inventory}:3: hosts.a.prot: is not a key here")
    assert ran.err.splitlines()[1:] == [
        f"{inventory}:5: targets.b.host: no host is named c; use a",
        "orch: the inventory has 2 faults; nothing was touched",
    ]
    assert not locate(inventory, os.environ).state_folder.exists()


def test_daemon_starts_once_and_stops(no_daemon_left: Path, orch: Orch) -> None:
    """start, status, start again (the same one), stop, status."""
    started = json.loads(orch("daemon", "start", "--json").out)
    assert started["running"] is True
    again = json.loads(orch("daemon", "start", "--json").out)
    status = json.loads(orch("daemon", "status", "--json").out)
    assert started["pid"] == again["pid"] == status["pid"]
    assert Path(status["socket"]).stat().st_mode & 0o777 == 0o600
    assert orch("daemon", "stop").code == 0
    assert orch("daemon", "status").code == 1


def test_a_second_daemon_of_an_inventory_is_refused(no_daemon_left: Path, orch: Orch) -> None:
    """Whoever starts it: the lock is the first one's for its life, and two would do all twice."""
    first = json.loads(orch("daemon", "start", "--json").out)
    second = spawn("daemon", "run")
    try:
        _, err = second.communicate(timeout=DEADLINE_S)
    finally:
        second.kill()
    assert (second.returncode, b"is running already" in err) == (1, True)
    assert json.loads(orch("daemon", "status", "--json").out)["pid"] == first["pid"]


def test_the_daemon_of_an_inventory_that_is_gone_is_seen_and_stopped(
    no_daemon_left: Path, orch: Orch
) -> None:
    """By the path that it had, or from its folder; a path that had no daemon is a mistake."""
    assert orch("daemon", "start").code == 0
    no_daemon_left.rename(no_daemon_left.with_name("renamed.yaml"))
    assert json.loads(orch("daemon", "status", "--json").out)["running"] is True
    stopped = orch("--config", str(no_daemon_left), "daemon", "stop")
    assert (stopped.code, "has ended" in stopped.out) == (0, True)
    mistaken = orch("--config", "other.yaml", "daemon", "stop")
    assert (mistaken.code, "there is no such file" in mistaken.err) == (2, True)


def test_two_commands_at_once_start_one_daemon(no_daemon_left: Path, orch: Orch) -> None:
    """Both get their answer from the one that won the lock."""
    both = [spawn("ps"), spawn("ps")]
    for process in both:
        _, err = process.communicate(timeout=DEADLINE_S)
        assert (process.returncode, err) == (0, b"")
    listed = json.loads(orch("daemon", "status", "--all", "--json").out)["daemons"]
    assert [one["running"] for one in listed] == [True]


def test_values_reach_the_daemon_that_is_started(
    no_daemon_left: Path, orch: Orch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the daemon needs, with who does, and a later command's environment has, it gets."""
    no_daemon_left.write_text(
        "version: 1\nalerts: {sinks: {ops: {type: webhook, url_env: ORCH_WEBHOOK_URL}}}\n"
    )
    assert json.loads(orch("daemon", "start", "--json").out)["needs"] == ["ORCH_WEBHOOK_URL"]
    status = json.loads(orch("daemon", "status", "--json").out)
    assert status["needed_by"] == {"ORCH_WEBHOOK_URL": ["sink ops"]}
    assert status["env_file"].endswith("/orch/env")
    monkeypatch.setenv("ORCH_WEBHOOK_URL", "http://127.0.0.1:9/hook")
    orch("ps")
    status = json.loads(orch("daemon", "status", "--json").out)
    assert (status["needs"], status["needed_by"]) == ([], {})


def test_who_leaves_before_the_launch_gets_no_run(job: str, orch: Orch) -> None:
    """Nothing is stored before `launching` was told, and who is gone cannot be told."""
    orch("daemon", "start")
    client = running_client(locate(Path("inventory.yaml"), os.environ))
    said = [message["kind"] for message in client.stream("POST", "/v1/run", {"job": job})]
    assert said[-3:] == ["preflight", "launching", "stored"]
    assert orch("wait", "@1").code == 100


def test_deploy_run_crash_and_the_same_crash_again(job: str) -> None:
    """One command ships, launches, follows and names the crash; the next says it is the same."""
    code, out, err = finished("run", "-m", "first")
    assert code == 100, err
    assert out.count("begun\n") == 1
    assert "[fx_trace_race]" in out
    assert "  thread  draft\n" in out
    assert "run 1 failed, exit code 1" in out
    code, out, err = finished("run", "-m", "second")
    assert code == 100, err
    assert "  same as run 1: not a fix\n" in out
    code, out, err = finished("run", "--", "--fine")
    assert (code, "run 3 finished, exit code 0" in out) == (0, True), err
    shown = json.loads(finished("show", "-1", "--json")[1])
    assert (shown["id"], shown["state"], shown["exit_code"]) == ("toy-3", "finished", 0)
    assert finished("logs", "toy-1", "--raw")[1].startswith("begun\r\n")
    assert finished("wait", "toy-1")[0] == 100
    assert "fx_trace_race" in finished("explain", "toy-2")[1]


def test_detached_run_can_be_waited_for(job: str) -> None:
    """`run --detach --json` gives the id; `wait` returns at its end with its code."""
    code, out, err = finished("run", "--detach", "--json", "--", "--fine")
    assert code == 0, err
    run = json.loads(out)["run"]
    code, out, err = finished("wait", run, "--until", "ended", "--timeout", "40", "--json")
    assert (code, json.loads(out)["reached"]) == (0, True), err


def test_daemon_killed_in_the_middle_costs_no_line(job: str, short_folder: Path) -> None:
    """kill -9 of the daemon: `orch run` goes on with a new one, each line once, and exits 0."""
    killed = short_folder / "killed"  # what the program waits for, half-way
    # Without a buffer: communicate() below leaves out what a reader of lines has read ahead.
    process = spawn("run", "--", "--slow", str(killed), bufsize=0)
    assert process.stdout is not None
    seen = []
    for line in process.stdout:
        seen.append(line.decode().rstrip())
        if seen[-1] == "line 5":
            break
    first = json.loads(finished("daemon", "status", "--json")[1])["pid"]
    os.kill(first, signal.SIGKILL)
    killed.touch()
    out, err = process.communicate(timeout=DEADLINE_S)
    seen += out.decode().splitlines()
    assert process.returncode == 0, err
    lines = [line for line in seen if line.startswith("line ")]
    assert lines == [f"line {number}" for number in range(40)]
    assert b"the daemon ended; the run goes on" in err
    assert json.loads(finished("daemon", "status", "--json")[1])["pid"] != first


def test_words_that_are_no_utf_8_are_answered_in_words(job: str) -> None:
    """A terminal in Latin-1 names a run, or says why: neither is a failure of orch itself."""
    latin = "gr\udce9"
    code, out, err = finished("run", job, "--detach", "-m", latin)
    assert code == 0, err
    shown = json.loads(finished("show", f"{job}-1", "--json")[1])
    assert shown["why"] == "gr?"
    for words in (("show", latin), ("stop", latin), ("logs", latin), ("wait", latin)):
        code, out, err = finished(*words)
        assert (code, out) == (102, ""), err
        assert err.startswith("orch: There is no run gr?."), err
    assert finished("cache", "ls", latin)[0] == 2


def test_a_letter_that_the_terminal_has_not_is_a_question_mark(
    no_daemon_left: Path, orch: Orch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a terminal without UTF-8 nor half a letter that was kept ends a list."""
    assert orch("silence", "add", "attempt=1", "--for", "1h", "-m", "caf\udce9 caf\u00e9").code == 0
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    code, out, err = finished("silence", "ls")
    assert (code, err) == (0, "")
    assert out.rstrip().endswith("caf? caf?")
    code, out, err = finished("silence", "add", "job=caf\udce9", "--for", "1h")
    assert (code, out) == (2, "")
    assert "no job is named caf" in err


def test_a_daemon_that_hangs_is_said_and_ended(no_daemon_left: Path, orch: Orch) -> None:
    """A stopped process costs a command seconds, not a minute, and `daemon stop` ends it."""
    pid = json.loads(orch("daemon", "start", "--json").out)["pid"]
    os.kill(pid, signal.SIGSTOP)
    try:
        for words in (("status",), ("daemon", "status")):
            begun = time.monotonic()
            code, _, err = finished(*words)
            assert code != 0
            assert "does not answer" in err
            assert "orch daemon stop" in err
            assert time.monotonic() - begun < 30
        code, out, _ = finished("daemon", "stop")
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
    assert (code, f"process {pid}" in out) == (0, True)
    found = procfs.stat(pid)
    assert found is None or found.state == procfs.ZOMBIE
    assert finished("daemon", "stop")[1].strip() == "no daemon was running"


def test_a_foreign_socket_that_is_silent_is_said_as_such(no_daemon_left: Path, orch: Orch) -> None:
    """Nobody is signalled for it: the note's daemon has gone."""
    place = Path(json.loads(orch("daemon", "start", "--json").out)["socket"])
    assert orch("daemon", "stop").code == 0
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place))
        listener.listen(5)
        code, _, err = finished("daemon", "stop")
    place.unlink()
    assert code != 0
    assert "no daemon of this inventory" in err
