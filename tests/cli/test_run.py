"""`orch run`: what it asks for, what it shows, and how it ends."""

import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from orchestrator.core.errors import Check, PreflightRefused, Unreachable
from tests.cli.canned import (
    LOG,
    PREFLIGHT,
    CannedBackend,
    incident_view,
    log_message,
    run_view,
    running,
)
from tests.cli.conftest import Ran, spawn

Orch = Callable[..., Ran]
Golden = Callable[[str, str], None]
DEADLINE_S = 30.0


def test_a_crash_is_told_and_gives_100(canned: CannedBackend, orch: Orch, golden: Golden) -> None:
    """Plan, preflight, log, verdict with `same as run 1: not a fix`, summary; exit 100."""
    ran = orch("run", "-m", "remove the wrapper")
    assert ran.code == 100
    assert "same as run 1: not a fix" in ran.out
    assert "warning: sink ops is unset" in ran.err
    golden("run", ran.out)


def test_replace_tells_how_the_old_run_ended(canned: CannedBackend, orch: Orch) -> None:
    """--replace says which run ended, and when its GPUs were free."""
    old = {**canned.streams["stop"][-1], "kind": "ended"}
    canned.streams["run"][-1:-1] = [{"kind": "stopping", "run": running()}, old]
    out = orch("run", "--replace").out
    assert "run 2 stopped, 3 processes ended; GPUs 0-7 free after 3.2 s" in out


@pytest.mark.parametrize(
    ("state", "code"), [("finished", 0), ("failed", 100), ("lost", 100), ("stopped", 103)]
)
def test_exit_code_is_the_runs_end(
    state: str, code: int, canned: CannedBackend, orch: Orch
) -> None:
    """`run` ends with 0, 100 or 103."""
    canned.streams["follow"] = [{"kind": "end", "run": run_view(state=state)}]
    assert orch("run").code == code


def test_the_request_holds_every_wish(canned: CannedBackend, orch: Orch) -> None:
    """Job, reason, variables, arguments and switches reach the daemon."""
    orch(
        *("run", "dflash", "-m", "try it", "--replace", "--no-deploy", "--force", "--detach"),
        *("--env", "A=1", "--env", "B=x=y", "--", "--lr", "3e-4"),
    )
    assert canned.asked[-1] == (
        "run",
        "",
        {
            "job": "dflash",
            "why": "try it",
            "replace": True,
            "env": {"A": "1", "B": "x=y"},
            "args": ["--lr", "3e-4"],
            "force": True,
            "deploy": False,
        },
    )


def test_detach_follows_nothing_and_prints_the_id(canned: CannedBackend, orch: Orch) -> None:
    """--detach ends once the run is stored; --json prints the id alone."""
    canned.streams["follow"] = ["wait"]
    ran = orch("run", "--detach", "--json")
    assert ran.code == 0
    assert json.loads(ran.out) == {"run": "dflash-2"}


def test_json_without_detach_is_one_document_at_the_end(canned: CannedBackend, orch: Orch) -> None:
    """The document is the run as it ended, and the exit code stays the run's."""
    ran = orch("run", "--json")
    assert ran.code == 100
    assert json.loads(ran.out) == run_view()


def test_refusal_names_each_failed_check_with_its_remedy(canned: CannedBackend, orch: Orch) -> None:
    """A preflight refusal is exit 1, and says what to do."""
    checks = (
        Check(name="gpus", ok=False, text="GPU 3 is busy.", remedy="orch stop dflash-1"),
        Check(name="disk", ok=True, text="80 GiB free"),
    )
    canned.raises["run"] = PreflightRefused("Nothing was launched.", checks=checks)
    ran = orch("run")
    assert ran.code == 1
    assert ran.err == (
        "FAIL  gpus: GPU 3 is busy.\n      orch stop dflash-1\norch: Nothing was launched.\n"
    )


def test_unreachable_host_is_4(canned: CannedBackend, orch: Orch) -> None:
    """An error in the middle of a stream keeps its exit code and its words."""
    lost = Unreachable("pve1 does not answer.", target="ct200", remedy="Is it on?")
    canned.streams["run"] = [*canned.streams["run"][:2], lost]
    ran = orch("run")
    assert (ran.code, ran.err) == (4, "orch: pve1 does not answer. Is it on?\n")


def test_what_lines_have_scrolled_away_is_told_again_at_the_end(
    canned: CannedBackend, orch: Orch
) -> None:
    """A thread died, the run printed on: its title stands below the summary once more."""
    early = incident_view(id="i-1", title="A thread died")
    canned.streams["follow"] = [
        {"kind": "incident", "incident": early},
        log_message(LOG),
        {"kind": "incident", "incident": incident_view(id="i-2", title="The process died")},
        {"kind": "end", "run": run_view()},
    ]
    out = orch("run").out
    _, summary = out.split("\nrun 2 failed")
    assert f"  told  A thread died  [{early['signature']}]" in summary
    assert "The process died" not in summary


def test_incident_whose_signature_changed_is_told_again(canned: CannedBackend, orch: Orch) -> None:
    """The verdict after the exit is shown again only where it says something else."""
    first = incident_view(signature="python_error", title="RuntimeError")
    canned.streams["follow"] = [
        {"kind": "incident", "incident": first},
        {"kind": "incident", "incident": first},
        {"kind": "incident", "incident": incident_view()},
        {"kind": "end", "run": run_view()},
    ]
    out = orch("run").out
    assert (out.count("[python_error]"), out.count("[fx_trace_race]")) == (1, 1)


def test_gaps_and_links_are_remarked(canned: CannedBackend, orch: Orch) -> None:
    """Lost bytes and an unreachable target are said where they happened."""
    canned.streams["follow"] = [
        log_message(b"one\n"),
        {"kind": "gap", "attempt": 1, "offset": 4, "size": 2048, "reason": "disk full"},
        {"kind": "link", "state": "unreachable", "seen_at": None, "reason": "timed out"},
        {"kind": "end", "run": run_view(state="finished")},
    ]
    lines = orch("run").out.splitlines()
    at = lines.index("one")
    assert lines[at + 1] == "[orch: 2.0 KiB of output are lost: disk full]"
    assert lines[at + 2] == "[orch: the target is unreachable: timed out]"


def test_a_cut_stream_is_taken_up_at_its_offset(canned: CannedBackend, orch: Orch) -> None:
    """A daemon that ends and comes back costs no line and shows none twice."""

    class Twice(list[Any]):
        """The first answer is cut short, the second has the rest."""

        def __iter__(self) -> Any:
            rest = LOG[16:]
            answers: list[list[Any]] = [
                [{"kind": "run", "run": running()}, log_message(LOG[:16]), "cut"],
                [log_message(rest, 16), {"kind": "end", "run": run_view(state="finished")}],
            ]
            asked = sum(1 for what, _, _ in canned.asked if what == "follow")
            return iter(answers[asked - 1])

    canned.streams["follow"] = Twice()
    ran = orch("run")
    assert ran.code == 0
    assert ran.out.count("step 1 loss 9.1") == 1
    assert ran.out.count("bar 99%") == 1
    assert canned.asked[-1] == ("follow", "dflash-2", {"attempt": "1", "offset": "16"})


def test_ctrl_c_leaves_the_run_alone_and_says_how_to_come_back(canned: CannedBackend) -> None:
    """SIGINT ends the command with 130, quickly, and names the commands that come back."""
    canned.streams["follow"] = [{"kind": "run", "run": running()}, log_message(), "wait"]
    process = spawn("run")
    assert process.stdout is not None
    for line in process.stdout:
        if line == b"end\n":
            break
    begun = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 130
    assert time.monotonic() - begun < 20
    assert b"run 2 goes on. Back to it: `orch logs -f dflash-2`" in err
    assert not [what for what, _, _ in canned.asked if what == "stop"]


def interrupted_at_preflight() -> tuple[int, bytes]:
    """Exit code and stderr of `orch run` with a Ctrl-C right after the preflight's lines."""
    process = spawn("run")
    assert process.stdout is not None
    for line in process.stdout:
        if b"clock" in line:
            break
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=DEADLINE_S)
    return process.returncode, err


def test_ctrl_c_before_the_launch_says_that_there_is_no_run(canned: CannedBackend) -> None:
    """The daemon says nothing of a launch in time: the command leaves, and says so."""
    canned.streams["run"] = [PREFLIGHT, "wait"]
    code, err = interrupted_at_preflight()
    assert (code, err) == (130, b"orch: left; nothing was launched\n")


def test_ctrl_c_during_the_launch_says_which_run_goes_on(canned: CannedBackend) -> None:
    """A launch that has begun is waited for, and its run named."""
    stored = canned.streams["run"][-1]
    canned.streams["run"] = [PREFLIGHT, 1.0, {"kind": "launching"}, 2.5, stored]
    code, err = interrupted_at_preflight()
    assert code == 130
    assert b"run 2 goes on. Back to it: `orch logs -f dflash-2`" in err


class Terminal:
    """A command on a pseudo-terminal of 100 columns; what it painted is in `seen`."""

    def __init__(self, *words: str) -> None:
        self.master, slave = os.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "orchestrator", *words],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "100"},
        )
        os.close(slave)
        self.seen = b""

    def read_until(self, wanted: bytes) -> bytes:
        """Read until it was painted; fails the test after the deadline."""
        deadline = time.monotonic() + DEADLINE_S
        while wanted not in self.seen:
            if time.monotonic() > deadline:
                pytest.fail(f"never saw {wanted!r} in {self.seen!r}")
            if select.select([self.master], [], [], 0.2)[0]:
                try:
                    self.seen += os.read(self.master, 65_536)
                except OSError:  # a pty's way to say that the other end was closed
                    break
        return self.seen

    def finish(self) -> int:
        """Read to the end; the exit code."""
        self.read_until(b"\0never\0") if self.process.poll() is None else None
        return self.process.wait(timeout=DEADLINE_S)

    def close(self) -> None:
        """End the command where it still runs."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(timeout=DEADLINE_S)
        os.close(self.master)


def test_a_table_ends_where_the_terminal_does(canned: CannedBackend) -> None:
    """What is too wide for 100 columns goes: spare columns, then the end of the last one."""
    long = incident_view(run="some-long-name-of-a-job-12", title="a title that goes on " * 5)
    canned.documents["incidents"] = {"incidents": [long]}
    terminal = Terminal("incidents")
    try:
        assert terminal.finish() == 0
        lines = terminal.seen.decode().splitlines()
        assert "TITLE" in lines[0]
        assert "TIMES" not in lines[0]
        plain = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in lines]
        assert plain[1].endswith("...")
        assert max(map(len, plain)) <= 100
    finally:
        terminal.close()


def test_a_progress_bar_is_drawn_over_while_it_grows(canned: CannedBackend) -> None:
    """A line that has not ended shows its newest picture above the status, before it ever ends."""
    canned.streams["follow"] = [
        {"kind": "run", "run": running()},
        {"kind": "log", "attempt": 1, "offset": 0, "end": 20, "text": "\rbar 10% |#   |"},
        0.5,
        {"kind": "log", "attempt": 1, "offset": 20, "end": 40, "text": "\rbar 20% |##  |"},
        "wait",
    ]
    terminal = Terminal("run")
    try:
        terminal.read_until(b"bar 10%")
        terminal.read_until(b"bar 20%")
        assert terminal.process.poll() is None
    finally:
        terminal.close()


def test_live_view_on_a_terminal(canned: CannedBackend) -> None:
    """Lines scroll above, the status stays below; of escapes only colours stay."""
    canned.streams["follow"] = [{"kind": "run", "run": running()}, log_message(), "wait"]
    terminal = Terminal("run")
    try:
        terminal.read_until(b"steps/s")
        seen = terminal.read_until(b"bar 99%")
        seen = terminal.read_until(b"2 GPUs, 1 busy")
        assert b"step 120" in seen
        assert b"loss 5.322" in seen
        assert b"train" in seen
        assert b"title" not in seen
        assert b"\x1b[31mred" in seen
        terminal.process.send_signal(signal.SIGINT)
        terminal.read_until(b"goes on")
        assert terminal.process.wait(timeout=DEADLINE_S) == 130
    finally:
        terminal.close()


def test_a_restart_is_told_where_it_begins(canned: CannedBackend, orch: Orch) -> None:
    """Between the lines of two attempts stands which one begins."""
    canned.streams["follow"] = [
        log_message(b"first\n"),
        log_message(b"second\n", attempt=2),
        {"kind": "end", "run": run_view()},
    ]
    assert "first\n[orch: attempt 2 begins]\nsecond\n" in orch("run").out


def test_a_finding_without_an_exception_says_what_was_seen(
    canned: CannedBackend, orch: Orch
) -> None:
    """Which rule does not hold is told with the incident, not only by `explain`."""
    seen = "step>=20: loss<6: loss is 23.0 at step 22"
    finding = {"text": seen, "cause": "A rule does not hold.", "next_steps": []}
    one = incident_view(signature="expectation_failed", title="Not as expected", finding=finding)
    canned.streams["follow"] = [
        {"kind": "incident", "incident": one},
        {"kind": "end", "run": run_view()},
    ]
    assert f"  seen    {seen}\n" in orch("run").out


def test_trials_say_a_warning_once(canned: CannedBackend, orch: Orch) -> None:
    """Ten trials have one warning between them, not ten."""
    warning = {"kind": "warning", "text": "sink ops is unset"}
    other = {"kind": "warning", "text": "the caches are empty"}
    rate = {"kind": "rate", "crashes": 0, "text": "0 of 2 crashed", "by_fingerprint": []}
    canned.streams["repeat"] = [warning, other, warning, rate]
    err = orch("repeat", "-n", "2").err
    assert (err.count("sink ops is unset"), err.count("the caches are empty")) == (1, 1)
