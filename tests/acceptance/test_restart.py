"""What a restart policy promises, with the real daemon and real attempts."""

import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.acceptance.conftest import MakeOrch, Orch, lab_job, local_job
from tests.acceptance.test_crash_story import firing
from tests.lab.lab import Lab
from tests.lab.receiver import Received, Receiver

Story = Callable[..., Orch]


def policy(backoff: str = "200ms") -> str:
    """A restart policy of the job."""
    rule = f"on: [infra], max_attempts: 3, within: 1h, backoff: {backoff}"
    return f"    restart: {{{rule}}}\n"


def evidence(orch: Orch) -> list[Path]:
    """The files of what targets said at failures, in order."""
    return sorted(Path(orch.env["XDG_STATE_HOME"]).glob("orch/*/evidence/*.json"))


def told(received: list[Received]) -> list[str]:
    """What alerts say happens next."""
    return [one.json["alerts"][0]["annotations"]["description"] for one in received]


def test_infra_failure_is_restarted_with_evidence_first(story: Story, receiver: Receiver) -> None:
    """Attempt 2 runs in the same run folder with ORCH_ATTEMPT=2, finishes, and resolves."""
    orch = story("python3 -m played infra --fail 1", policy())
    orch("run", timeout_s=90)
    shown = orch.json("show", "@1")
    assert (shown["state"], shown["attempt"]) == ("finished", 2)
    first, second = (
        orch("logs", "@1", "--attempt", number, "--raw").stdout.splitlines()[0] for number in "12"
    )
    folder = shown["directory"]
    assert (first, second) == (f"attempt 1 in {folder}", f"attempt 2 in {folder}")
    (kept,) = evidence(orch)
    assert kept.name == f"{shown['id']}.1.json"
    assert [one["number"] for one in shown["attempts"]] == [1, 2]
    assert [one["state"] for one in shown["attempts"]] == ["failed", "finished"]
    (opened,) = orch.json("incidents", "-a")["incidents"]
    assert opened["state"] == "resolved"
    assert "\nattempts:\n  1        ended with exit code" in orch("show", "@1").stdout
    told_of = orch.json("explain", "@1")
    died = told_of["died"]
    assert (died["attempt"], died["state"], told_of["run_state"]) == (1, "failed", "finished")
    assert died["exit_code"] not in {0, None}
    assert [one["state"] for one in told_of["attempts"]] == ["failed", "finished"]
    text = orch("explain", "@1").stdout
    assert "Attempts; the run finished:\n  attempt 1 (told here): ended with exit code" in text
    assert "\n  state   resolved " in text
    found = json.loads(kept.read_text())
    assert {"processes", "sessions", "gpus"} <= set(found)
    alerts = receiver.wait_for(2)
    assert [one.json["status"] for one in alerts] == ["firing", "resolved"]
    assert "Restarting, rendezvous_or_port (infra): attempt 2 of 3" in told(alerts)[0]


def test_budget_is_spent_and_said(
    make_orch: MakeOrch, short_folder: Path, receiver: Receiver
) -> None:
    """After three attempts in the window the run has failed; the second alert says so."""
    orch = make_orch(local_job(short_folder, "python3 -m played infra --fail 9", policy("100ms")))
    printed = orch("run", check=100, timeout_s=90).stdout
    assert (
        "[orch: Restarting, rendezvous_or_port (infra): attempt 2 of 3 starts in 0.1 s.]" in printed
    )
    why = "Not restarted: 3 attempts within 1 h; that is all there may be."
    assert f"\n  then  {why}\n" in printed
    assert f"restart  {why}" in orch("show", "@1").stdout
    assert f"Then:\n  {why}" in orch("explain", "@1").stdout
    shown = orch.json("show", "@1")
    assert (shown["state"], shown["attempt"]) == ("failed", 3)
    assert shown["restart"] == {"said": why, "at": None}
    seen = Path(shown["directory"]) / "attempts"
    assert seen.read_text().split() == ["1", "2", "3"]
    alerts = receiver.wait_for(2, where=firing)
    assert "3 attempts within 1 h; that is all there may be" in told(alerts)[1]
    assert [one["occurrences"] for one in orch.json("incidents")["incidents"]] == [3]
    assert len(evidence(orch)) == 2


def test_code_93_and_unnamed_failures_are_not_restarted(
    make_orch: MakeOrch, short_folder: Path, receiver: Receiver
) -> None:
    """Exit code 93 asks for no restart, and a SIGKILL is not among `restart.on`."""
    orch = make_orch(local_job(short_folder, "python3 -m played infra --code 93", policy()))
    orch("run", check=100)
    assert orch.json("show", "@1")["attempt"] == 1
    assert "Not restarted: exit code 93" in told(receiver.wait_for(1, where=firing))[0]
    file = orch.folder / "inventory.yaml"
    file.write_text(file.read_text().replace("infra --code 93", "sigkill_self"))
    orch("run", check=100)
    assert orch.json("show", "@1")["attempt"] == 1
    assert "not among the job's restart.on" in told(receiver.wait_for(2, where=firing))[1]


def test_stop_during_backoff_stops(make_orch: MakeOrch, short_folder: Path) -> None:
    """`orch stop` while the next attempt waits ends the run: no attempt follows, ever."""
    orch = make_orch(local_job(short_folder, "python3 -m played infra --fail 9", policy("1h")))
    run = orch.json("run", "--detach")["run"]
    orch.until(lambda: orch.json("show", run)["state"] == "backoff")
    assert orch.json("show", run)["restart"]["at"] > time.time() + 3000
    assert re.search(r"restart  attempt 2 starts in (1h|59m)", orch("show", run).stdout)
    took = orch("show", run).stdout.partition("took     ")[2].splitlines()[0]
    refused = orch("run", "--detach", check=1)
    assert f"{run} waits for its time to begin attempt 2" in refused.stdout + refused.stderr
    assert [one["id"] for one in orch.json("ps", "-a")["runs"]] == [run]
    orch("stop", run)
    shown = orch.json("show", run)
    assert (shown["state"], shown["attempt"], shown["restart"]) == ("stopped", 1, None)
    assert f"took     {took}\n" in orch("show", run).stdout
    assert f"incident {shown['incident']} (open)" in orch("show", run).stdout
    orch("daemon", "stop")
    assert orch.json("show", run)["state"] == "stopped"
    assert (Path(shown["directory"]) / "attempts").read_text().split() == ["1"]


def test_stop_during_backoff_ends_what_the_attempt_left(story: Story) -> None:
    """A process that outlived its attempt would hold its GPUs: there is no next one to end it."""
    words = '["sh", "-c", "setsid sleep 300 & exec python3 -m played infra --fail 9"]'
    orch = story(words, policy("1h"))
    run = orch.json("run", "--detach")["run"]
    orch.until(lambda: orch.json("show", run)["state"] == "backoff")
    stopped = orch.json("stop", run)
    assert len(stopped["ended"]) == 1
    assert stopped["run"]["state"] == "stopped"


def test_backoff_outlives_the_daemon(
    make_orch: MakeOrch, short_folder: Path, receiver: Receiver
) -> None:
    """A daemon stopped during back-off is followed by one that starts attempt 2, once."""
    orch = make_orch(local_job(short_folder, "python3 -m played infra --fail 1", policy("2s")))
    run = orch.json("run", "--detach")["run"]
    orch.until(lambda: orch.json("show", run)["state"] == "backoff")
    orch("daemon", "stop")
    orch("wait", run, "--timeout", "60", timeout_s=90)
    shown = orch.json("show", run)
    assert (shown["state"], shown["attempt"]) == ("finished", 2)
    assert (Path(shown["directory"]) / "attempts").read_text().split() == ["1", "2"]
    assert len(receiver.wait_for(1, where=firing)) == 1


@pytest.fixture
def slow_evidence(lab: Lab) -> Iterator[None]:
    """Container 200 takes 6 s to say what its GPUs are like in full."""
    tool = lab["200"].root / "usr/bin/nvidia-smi"
    whole = tool.read_bytes()
    tool.write_text('#!/bin/sh\n[ "$1" = -q ] && sleep 6\nexit 9\n')
    yield
    tool.write_bytes(whole)


@pytest.mark.lab
@pytest.mark.xdist_group("lab")
@pytest.mark.usefixtures("slow_evidence")
def test_an_edit_while_evidence_is_collected_keeps_the_order(make_orch: MakeOrch, lab: Lab) -> None:
    """The attempt that is due at once waits until the target has said what it says of the last."""
    orch = make_orch(lab_job(lab, "python3 -m played infra --fail 1", policy("1h")))
    run = orch.json("run", "--detach")["run"]
    orch.until(lambda: orch.json("show", run)["state"] == "backoff")
    orch("daemon", "stop")
    file = orch.folder / "inventory.yaml"
    file.write_text(file.read_text().replace("backoff: 1h", "backoff: 100ms"))
    orch("wait", run, "--timeout", "60", timeout_s=90)
    (kept,) = evidence(orch)
    assert kept.stat().st_mtime <= orch.json("show", run)["attempts"][1]["started_at"]


def test_foreign_session_blocks_the_relaunch(
    make_orch: MakeOrch, short_folder: Path, receiver: Receiver
) -> None:
    """What somebody else started in the session's name stays, and the alert names it."""
    orch = make_orch(local_job(short_folder, "python3 -m played infra --fail 9", policy("1h")))
    run = orch.json("run", "--detach")["run"]
    orch.until(lambda: orch.json("show", run)["state"] == "backoff")
    orch(
        *("exec", "local", "--", "sh", "-c"),
        # A server whose last session was killed may be met as it ends.
        "tmux kill-session -t dflash;"
        " until tmux new-session -d -s dflash sleep 300; do sleep 0.1; done",
    )
    file = orch.folder / "inventory.yaml"
    file.write_text(file.read_text().replace("backoff: 1h", "backoff: 100ms"))
    orch("wait", run, "--timeout", "60", timeout_s=90, check=100)
    assert orch.json("show", run)["attempt"] == 2
    refused = receiver.wait_for(2, where=firing)[1].json["alerts"][0]
    assert refused["labels"]["alertname"] == "launch_failed"
    assert "dflash" in refused["annotations"]["description"]
    orch("exec", "local", "--", "tmux", "has-session", "-t", "dflash")


def test_restart_policy_that_is_edited_in_a_backoff_counts(
    make_orch: MakeOrch, short_folder: Path
) -> None:
    """A shorter delay begins the next attempt; without a policy the run fails, and says why."""
    restart = "    restart: {on: [python_error], max_attempts: 9, backoff: 1h}\n"
    orch = make_orch(local_job(short_folder, 'python3 -c "raise ValueError(1)"', restart))
    file = orch.folder / "inventory.yaml"
    whole = file.read_text()
    run = orch.json("run", "--detach")["run"]
    orch.until(lambda: orch.json("show", run)["state"] == "backoff")
    file.write_text(
        whole.replace("backoff: 1h", "backoff: 100ms").replace("attempts: 9", "attempts: 2")
    )
    assert orch.until(lambda: orch.json("show", run)["ended_at"])
    assert orch.json("show", run)["attempt"] == 2
    file.write_text(whole)
    run = orch.json("run", "--detach")["run"]
    orch.until(lambda: orch.json("show", run)["state"] == "backoff")
    orch("daemon", "stop")
    file.write_text(whole.replace(restart, ""))
    orch("daemon", "start")
    orch.until(lambda: orch.json("show", run)["state"] == "failed")
    assert orch.json("show", run)["attempt"] == 1
