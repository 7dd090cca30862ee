"""What the reading commands print: tables pinned by golden files, documents as the daemon said."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.canned import STARTED, CannedBackend, attempt_view, incident_view, run_view, running
from tests.cli.conftest import Ran, spawn

Orch = Callable[..., Ran]
Golden = Callable[[str, str], None]

TEXTS = {
    "status": ("status",),
    "ps": ("ps",),
    "show": ("show", "@1"),
    "logs": ("logs", "@1"),
    "logs-follow": ("logs", "@1", "-f"),
    "top": ("top",),
    "incidents": ("incidents",),
    "explain": ("explain", "i-7"),
    "ack": ("ack", "i-7"),
    "deploy": ("deploy",),
    "stop": ("stop", "@1"),
    "rollback": ("rollback", "dflash"),
    "doctor": ("doctor",),
    "alert-test": ("alert", "test"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_text_is_pinned(name: str, canned: CannedBackend, orch: Orch, golden: Golden) -> None:
    """A change of what a person reads shows as a diff of a golden file."""
    ran = orch(*TEXTS[name])
    assert ran.code == 0
    golden(name, ran.out)


DOCUMENTS = {
    "run": ("show", "@1"),
    "runs": ("ps",),
    "incidents": ("incidents",),
    "explain": ("explain", "i-7"),
    "ack": ("ack", "i-7"),
    "top": ("top",),
    "doctor": ("doctor",),
    "rollback": ("rollback", "dflash"),
    "releases-there": ("releases", "dflash"),
    "alert-test": ("alert", "test"),
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_json_is_the_daemons_document(name: str, canned: CannedBackend, orch: Orch) -> None:
    """--json prints one document, and it is the one that the API gives."""
    ran = orch(*DOCUMENTS[name], "--json")
    assert json.loads(ran.out) == canned.documents[name]
    assert ran.err == ""


def test_run_document_has_the_promised_keys(canned: CannedBackend, orch: Orch) -> None:
    """`show RUN --json` has the keys that scripts hold on to."""
    promised = "id job target state attempt exit_code signal started_at ended_at step loss phase"
    promised += " verdict incident link seen_at"
    assert set(promised.split()) <= json.loads(orch("show", "@1", "--json").out).keys()


def test_status_since_asks_for_the_difference(canned: CannedBackend, orch: Orch) -> None:
    """--since CURSOR reaches the daemon, and its document is printed."""
    assert json.loads(orch("status", "--since", "12", "--json").out)["cursor"] == 17
    assert canned.asked[-1][:2] == ("snapshot", "12")


def test_status_watch_prints_again_when_something_changes(
    canned: CannedBackend, orch: Orch
) -> None:
    """--watch prints at once and after each change, one document a line with --json."""
    lines = orch("status", "--watch", "--json").out.splitlines()
    assert [json.loads(line)["cursor"] for line in lines] == [17, 17]


def test_ps_passes_its_filters_on(canned: CannedBackend, orch: Orch) -> None:
    """-a and --job are the daemon's to apply."""
    orch("ps", "-a", "--job", "dflash")
    assert canned.asked[-1] == ("runs", "", {"all": "1", "job": "dflash"})


@pytest.mark.parametrize("words", ["-1", "@2", "dflash", "a/b ?#"])
def test_run_words_reach_the_daemon_as_they_are(
    words: str, canned: CannedBackend, orch: Orch
) -> None:
    """-1 is no option, and no sign in a RUN breaks the path."""
    assert orch("show", words, "--json").code == 0
    assert canned.asked[-1][:2] == ("run", words)


@pytest.mark.parametrize(
    ("words", "state", "reached", "code"),
    [
        ((), "finished", True, 0),
        ((), "failed", True, 100),
        ((), "lost", True, 100),
        ((), "stopped", True, 103),
        (("--timeout", "0.2"), "running", False, 124),
        (("--until", "step:5"), "running", True, 0),
        (("--until", "step:5"), "failed", False, 100),
        (("--until", "step:5"), "stopped", False, 103),
        (("--until", "step:5"), "finished", False, 1),
        (("--until", "crashed"), "failed", True, 0),
        (("--until", "log:ready", "--timeout", "0.2"), "running", False, 124),
    ],
)
def test_wait_exit_codes(
    words: tuple[str, ...],
    state: str,
    reached: bool,
    code: int,
    canned: CannedBackend,
    orch: Orch,
) -> None:
    """`ended` gives the run's own end, other conditions 0 when reached, and time is 124."""
    canned.documents["wait"] = {"reached": reached, "run": run_view(state=state), "reason": "x"}
    assert orch("wait", "@1", *words).code == code


def test_wait_goes_on_with_the_run_that_it_began_with(canned: CannedBackend, orch: Orch) -> None:
    """A long wait asks again and again, by the run's id: `@1` may be another run by then."""
    not_yet = {"reached": False, "run": running(), "reason": "not within 50 s"}
    canned.successive["wait"] = [not_yet, {**not_yet, "reached": True}]
    assert orch("wait", "@1", "--until", "step:5").code == 0
    assert [(what, words) for what, words, _ in canned.asked] == [
        ("wait", "@1"),
        ("wait", "dflash-2"),
    ]


def test_wait_for_nonsense_is_refused(canned: CannedBackend, orch: Orch) -> None:
    """A condition that is none gives 2 and the list of those there are."""
    ran = orch("wait", "@1", "--until", "monday")
    assert ran.code == 2
    assert "ended, crashed, incident, step:N, phase:NAME, log:RE" in ran.err


def test_wait_for_an_incident_of_any_run(canned: CannedBackend, orch: Orch) -> None:
    """Without RUN the daemon is asked about all; any other expression needs one."""
    told = {"reached": True, "run": running(), "reason": "i1: it died", "incident": incident_view()}
    canned.documents["wait-any"] = told
    assert orch("wait", "--until", "incident").out == "dflash-2 running: i1: it died\n"
    assert canned.asked[-1][:2] == ("wait-any", "")
    canned.documents["wait-any"] = {"reached": False, "run": None, "reason": "not within 1 s"}
    ran = orch("wait", "--until", "incident", "--timeout", "1")
    assert (ran.code, ran.out) == (124, "no incident: not within 1 s\n")
    refused = orch("wait", "--until", "step:5")
    assert (refused.code, "required: RUN" in refused.err) == (2, True)


def test_watch_since_prints_only_what_changed(canned: CannedBackend, orch: Orch) -> None:
    """With a cursor --watch begins with the difference, and goes on with each that comes."""
    lines = orch("status", "--watch", "--since", "12", "--json").out.splitlines()
    assert [json.loads(line)["cursor"] for line in lines] == [17, 17]
    assert ("snapshot", "12", {}) in canned.asked


def test_raw_log_is_the_stored_bytes(canned: CannedBackend) -> None:
    """--raw gives every byte as the program wrote it, escapes and all."""
    process = spawn("logs", "@1", "--raw")
    out, err = process.communicate(timeout=30)
    assert err == b""
    assert out.startswith(b"step 1 loss 9.1\n\x1b[31mred\x1b[0m and \x1b]0;title\x07")
    assert out.endswith(b"bar 1%\rbar 99%\nend\n")


def test_log_lines_can_be_chosen(canned: CannedBackend, orch: Orch) -> None:
    """-n takes the last lines, --grep those that match."""
    assert orch("logs", "@1", "-n", "2").out == "bar 99%\nend\n"
    assert orch("logs", "@1", "--grep", "^st|^e").out == "step 1 loss 9.1\nend\n"
    assert orch("logs", "@1", "-f", "--grep", "red").out.startswith("red and clear\n\n")
    bad = orch("logs", "@1", "--grep", "(")
    assert (bad.code, "--grep" in bad.err) == (2, True)


def test_log_options_that_contradict_are_refused(canned: CannedBackend, orch: Orch) -> None:
    """Two wishes that cannot both be met give 2, not half an answer."""
    for words in (
        ("--raw", "-f"),
        ("--raw", "--grep", "x"),
        ("--jsonl",),
        ("-f", "--attempt", "1"),
    ):
        assert orch("logs", "@1", *words).code == 2


def test_followed_log_as_json_lines(canned: CannedBackend, orch: Orch) -> None:
    """-f --jsonl prints the stream's messages, one a line."""
    lines = orch("logs", "@1", "-f", "--jsonl").out.splitlines()
    assert [json.loads(line)["kind"] for line in lines] == ["run", "log", "incident", "end"]


def test_a_pipe_that_closes_early_is_no_traceback(canned: CannedBackend) -> None:
    """`orch logs | head -1` ends quietly, by the shell's own code for a broken pipe."""
    canned.documents["runs"] = {"runs": [running(why="w" * 1000) for _ in range(2000)]}
    process = spawn("ps")
    assert process.stdout is not None
    assert process.stdout.readline().startswith(b"RUN")
    process.stdout.close()
    assert process.stderr is not None
    with process.stderr as errors:
        assert errors.read() == b""
    assert process.wait(timeout=30) == 128 + signal.SIGPIPE


def test_values_of_this_environment_are_passed_on(
    canned: CannedBackend, orch: Orch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any command gives the daemon what it needs and we have; nothing else of the environment."""
    monkeypatch.setenv("ORCH_WEBHOOK_URL", "http://127.0.0.1:9/hook")
    monkeypatch.setenv("ORCH_UNRELATED", "secret")
    assert orch("ps").code == 0
    assert canned.accepted == {"ORCH_WEBHOOK_URL": "http://127.0.0.1:9/hook"}


def test_doctor_with_a_critical_failure_is_3(canned: CannedBackend, orch: Orch) -> None:
    """A failed critical check is exit 3, with its remedy below it; a warning is not."""
    canned.documents["doctor"]["checks"][0].update(ok=False, text="full", remedy="Run orch prune.")
    ran = orch("doctor")
    assert ran.code == 3
    assert "FAIL  disk: full\n      Run orch prune.\n" in ran.out


def test_alert_that_did_not_arrive_is_1(canned: CannedBackend, orch: Orch) -> None:
    """`alert test` fails with its sink, and where there is no sink at all."""
    canned.documents["alert-test"]["results"][0].update(ok=False, text="HTTP 500")
    assert orch("alert", "test", "ops").code == 1
    assert canned.asked[-1] == ("alert-test", "", {"sink": "ops"})
    canned.documents["alert-test"] = {"results": []}
    assert orch("alert", "test").code == 1


def test_stop_says_who_holds_the_gpus(canned: CannedBackend, orch: Orch) -> None:
    """What could not be ended is named, and the exit code says so."""
    stopped = canned.streams["stop"][-1]
    left = {"pid": 77, "command": "python3"}
    stopped.update(remaining=[left], gpu_holders=[{"gpu": 3, **left}])
    ran = orch("stop", "@1", "--grace", "5")
    assert ran.code == 1
    assert "still there: pid 77 python3" in ran.out
    assert "GPU memory is still held by gpu 3 pid 77 python3" in ran.out
    assert canned.asked[-1] == ("stop", "@1", {"grace_s": 5.0})


def test_stopping_what_has_ended_is_no_error(canned: CannedBackend, orch: Orch) -> None:
    """A run that ended before says so, and 0."""
    canned.streams["stop"] = [{"kind": "stopped", "run": run_view(), "already": True}]
    ran = orch("stop", "@1")
    assert (ran.code, ran.out) == (0, "run 2 had ended already: failed\n")


def test_stop_as_json_is_one_document(canned: CannedBackend, orch: Orch) -> None:
    """--json prints the last message alone."""
    assert json.loads(orch("stop", "@1", "--json").out)["gpus_free_after_s"] == 3.2


def test_deploy_as_json_is_one_document(canned: CannedBackend, orch: Orch) -> None:
    """Plans and what was deployed, in one document."""
    said = json.loads(orch("deploy", "dflash", "--dry-run", "--json").out)
    assert said["plans"][0]["files_to_send"] == 1
    assert said["deployed"][0]["release"] == "4be1d0"
    assert canned.asked[-1] == ("deploy", "", {"jobs": ["dflash"], "dry_run": True})


def test_remote_text_cannot_reach_the_terminal(canned: CannedBackend, orch: Orch) -> None:
    """An escape in a title, a reason or a name is taken out of every table and line."""
    evil = "x\x1b]0;pwned\x07\x1b[2J\x9b2Jy"
    canned.documents["runs"] = {"runs": [running(why=evil, phase=evil)]}
    canned.documents["run"] = run_view(why=evil, phase=evil)
    canned.documents["explain"] = {"text": evil, "markdown": ""}
    for words in (("ps",), ("show", "@1"), ("explain", "@1")):
        out = orch(*words).out
        assert "\x1b" not in out
        assert "\x9b" not in out
        assert "pwned" not in out


def test_config_is_taken_before_and_after_the_command(
    canned: CannedBackend, orch: Orch, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Global options stand on either side of the command."""
    path = os.fspath(project / "inventory.yaml")
    monkeypatch.chdir("/")
    assert orch("ps").code == 2
    assert orch("--config", path, "ps").code == 0
    assert orch("ps", "--config", path).code == 0
    assert orch("daemon", "status", "--config", path).code == 0


@pytest.mark.parametrize("words", [("status",), ("daemon", "status"), ("run",), ("deploy",)])
def test_a_daemon_of_older_code_is_warned_of_once(
    words: tuple[str, ...], canned: CannedBackend, orch: Orch
) -> None:
    """After an upgrade the old daemon goes on until it is stopped, and this is said."""
    canned.outdated = True
    assert orch(*words).err.count("the daemon runs older code than is installed") == 1


def test_no_incidents_are_said(canned: CannedBackend, orch: Orch) -> None:
    """Nothing open is a sentence, not the heads of an empty table."""
    canned.documents["incidents"] = {"incidents": []}
    assert orch("incidents").out == "no open incidents\n"


def test_wait_says_the_end_once(canned: CannedBackend, orch: Orch) -> None:
    """A run that ended without the condition is `failed`, and not `failed: the run is failed`."""
    reason = "the run is failed"
    canned.documents["wait"] = {"reached": False, "run": run_view(), "reason": reason}
    assert orch("wait", "@1", "--until", "step:5").out == "dflash-2 failed\n"


def test_status_since_tells_the_next_cursor(canned: CannedBackend, orch: Orch) -> None:
    """Who asks for what changed needs it; nobody else does."""
    assert orch("status", "--since", "12").out.endswith("cursor 17\n")
    assert "cursor" not in orch("status").out


def test_logs_tail_is_the_long_name_of_n(canned: CannedBackend, orch: Orch) -> None:
    """As `docker logs` and `kubectl logs` call it."""
    assert orch("logs", "@1", "--tail", "1").out == orch("logs", "@1", "-n", "1").out == "end\n"


def test_no_runs_are_said(canned: CannedBackend, orch: Orch) -> None:
    """An empty list says how to fill it, rather than showing heads above nothing."""
    canned.documents["runs"] = {"runs": []}
    assert orch("ps").out == "no runs yet; `orch run` starts one\n"


def test_show_lists_the_attempts_and_takes_the_newest_ones_time(
    canned: CannedBackend, orch: Orch
) -> None:
    """Each attempt has its end; `took` of a run in back-off is that of the attempt that ended."""
    first = attempt_view(ended_at=STARTED + 40)
    second = attempt_view(2, started_at=STARTED + 50, ended_at=STARTED + 59, exit_code=3)
    waits = {"state": "backoff", "ended_at": None, "started_at": STARTED + 50, "attempt": 2}
    canned.documents["run"] = run_view(**waits, attempts=[first, second])
    shown = orch("show", "@1").out
    assert "\n  took     9.0 s\n" in shown
    assert "\n  incident i-7f3k (open)\n" in shown
    assert (
        "\nattempts:\n  1        ended with exit code 1 after 40 s\n"
        "  2        ended with exit code 3 after 9 s\n"
    ) in shown
