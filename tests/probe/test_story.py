"""One attempt from launch to exit record, on the oldest Python and on ours."""

import json
from collections.abc import Callable

import pytest

from orchestrator.probe.frames import unpack
from tests.probe.driver import Driver, Run, eventually

pytestmark = pytest.mark.tmux

BOTH = pytest.mark.parametrize("python", ["3.10", "current"], indirect=True)

PROGRAM = """
echo first line; stty size; env | sort
echo '{"step": 1, "loss": 5.5}' >> $ORCH_RUN_DIR/metrics.jsonl
echo last line; exit 3
"""


@BOTH
def test_an_attempt_is_launched_followed_and_its_end_is_told_last(
    probe: Driver, a_run: Run
) -> None:
    """Log and metrics arrive byte for byte, and only then the exit record with code and size."""
    launched = probe.call("launch", **a_run.spec("sh", "-c", PROGRAM, env={"MINE": "yes"}))
    assert launched["already"] is False
    probe.call("watch", **a_run.watch())
    record = probe.kind("exit", watch=a_run.run)["record"]
    log = probe.stream(a_run.run)
    assert (record["code"], record["signal"]) == (3, None)
    assert record["log_bytes"] == len(log)
    assert log == a_run.log()
    assert log.startswith(b"first line\r\n50 200\r\n")
    assert log.endswith(b"last line\r\n")
    assert json.loads(probe.stream(a_run.run, "metrics")) == {"step": 1, "loss": 5.5}
    assert probe.frames[-1]["kind"] == "exit"


def test_the_environment_is_clean_and_the_jobs_own_comes_on_top(probe: Driver, a_run: Run) -> None:
    """Nothing of the way in reaches a run; path_first and python_path come before its own."""
    spec = a_run.spec(
        "env",
        env={"MINE": "yes", "PYTHONPATH": "/theirs"},
        path_first=["/opt/first"],
        python_path=["/srv/release"],
    )
    probe.call("launch", **spec)
    probe.call("watch", **a_run.watch())
    probe.kind("exit")
    lines = probe.stream(a_run.run).decode().split("\r\n")
    env = dict(line.split("=", 1) for line in lines if "=" in line)
    assert env["MINE"] == "yes"
    assert env["PATH"].split(":")[0] == "/opt/first"
    assert "/usr/bin" in env["PATH"].split(":")
    assert env["PYTHONPATH"] == "/srv/release:/theirs"
    assert env["ORCH_RUN_ID"] == a_run.run
    assert env["ORCH_ATTEMPT"] == "1"
    assert env["ORCH_RUN_DIR"] == str(a_run.directory)
    assert env["LANG"] == "C.UTF-8"
    assert {"HOME", "USER", "SHELL", "LOGNAME", "TERM"} <= env.keys()
    assert not {"STRAY", "TMUX", "TMUX_PANE"} & env.keys()


def test_a_secret_is_in_no_argv_and_not_in_tmux(
    probe: Driver, a_run: Run, tmux: Callable[..., str]
) -> None:
    """The environment travels through the FIFO alone, which is gone afterwards."""
    secret = "s3cr3t-do-not-show"
    probe.call("launch", **a_run.spec("sleep", "100", env={"HF_TOKEN": secret}))
    found = probe.call("processes")["processes"]
    assert any(item["run"] == a_run.run for item in found)
    assert all(secret not in item["command"] for item in found)
    assert secret not in tmux("show-environment", "-g") + tmux("show-environment", "-t", "job")
    assert secret not in tmux("list-panes", "-a", "-F", "#{pane_start_command}")
    assert not (a_run.attempt() / "spec").exists()
    files = [p for p in a_run.attempt().iterdir() if p.is_file()]
    assert all(secret.encode() not in path.read_bytes() for path in files)


def test_the_first_frame_is_hello_and_a_ping_is_answered(probe: Driver) -> None:
    """`hello` says who answers; pings keep the link and are echoed."""
    assert probe.frames[0]["kind"] == "hello"
    probe.send({"kind": "ping", "n": 7})
    assert probe.kind("pong")["n"] == 7


def test_the_pane_shows_the_output_and_how_it_ended(
    probe: Driver, a_run: Run, tmux: Callable[..., str]
) -> None:
    """The dead pane, scrollback included, says the exit, the log and where to look further."""

    def pane() -> str:
        return tmux("capture-pane", "-pJS", "-", "-t", "job")

    probe.call("launch", **a_run.spec("sh", "-c", "echo shown here; exit 4"))
    probe.call("watch", **a_run.watch())
    probe.kind("exit")
    assert probe.stream(a_run.run) == b"shown here\r\n"
    shown = eventually(lambda: "exit code 4" in pane() and pane(), "the pane says the end")
    assert "shown here" in shown
    assert f"orch show {a_run.run}" in shown


def test_what_is_typed_in_the_pane_reaches_the_program(
    probe: Driver, a_run: Run, tmux: Callable[..., str]
) -> None:
    """A line typed by somebody who attached is read by the program, and Ctrl-C interrupts it."""
    program = """
        read line; echo "got $line"; trap "echo stopped; exit 130" INT; while :; do sleep 0.1; done
    """
    probe.call("launch", **a_run.spec("bash", "-c", program))
    probe.call("watch", **a_run.watch())
    tmux("send-keys", "-t", "job", "hello there", "Enter")
    probe.until_stream(a_run.run, lambda log: b"got hello there" in log)
    tmux("send-keys", "-t", "job", "C-c")
    assert probe.kind("exit")["record"]["code"] == 130
    assert b"stopped" in probe.stream(a_run.run)


def test_a_program_that_is_not_there_says_so_and_ends_with_127(probe: Driver, a_run: Run) -> None:
    """As in a shell, and in the log rather than in an error of the launch."""
    probe.call("launch", **a_run.spec("no-such-program"))
    probe.call("watch", **a_run.watch())
    assert probe.kind("exit")["record"]["code"] == 127
    assert b"no-such-program: No such file or directory" in probe.stream(a_run.run)


def test_a_range_of_a_file_is_read(probe: Driver, a_run: Run) -> None:
    """`read` gives the range and the size of the whole; an offset from the end counts back."""
    path = a_run.root / "some.txt"
    path.write_bytes(b"0123456789")
    middle = probe.call("read", path=str(path), offset=2, size=3)
    assert (unpack(middle["data"]), middle["size"]) == (b"234", 10)
    tail = probe.call("read", path=str(path), offset=-4, size=100)
    assert unpack(tail["data"]) == b"6789"
    missing = probe.result("read", path=str(path) + ".not", offset=0, size=1)
    assert missing["error"]["type"] == "FileNotFoundError"


def test_an_unknown_op_is_an_error_of_its_call_alone(probe: Driver) -> None:
    """The probe goes on after a call, or a line, that it does not understand."""
    assert probe.result("no_such_op")["error"]["type"] == "BadCall"
    assert probe.popen.stdin is not None
    probe.popen.stdin.write(b"this is no frame\n")
    probe.send({"kind": "ping", "n": 1})
    assert probe.kind("pong")["n"] == 1
