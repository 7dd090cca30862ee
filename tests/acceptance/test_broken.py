"""What people and programs do against the grain: nothing is stuck or lost, and all is said."""

import json
import os
import signal
import sys
from pathlib import Path

from tests.acceptance.conftest import MakeOrch, Orch


def script(*words: str, target: str = "local", folder: Path) -> str:
    """An inventory with two targets that are one place, and a job without a package on `target`."""
    command = json.dumps(list(words))
    return f"""
version: 1
hosts:
  here: {{transport: local}}
targets:
  local: {{host: here, python: {sys.executable}}}
  beside: {{host: here, python: {sys.executable}, tmux_socket: beside}}
jobs:
  plain:
    target: {target}
    workdir: {folder}/w
    command: {command}
"""


def rewrite(orch: Orch, text: str) -> None:
    """Edit the inventory as an editor would."""
    (orch.folder / "inventory.yaml").write_text(text)


def runs_now(orch: Orch, run: str) -> None:
    """Wait until a run says that it runs and has written."""
    orch.until(lambda: orch.json("show", run)["log_bytes"] > 0)


def test_two_targets_that_are_one_place_are_both_seen(
    make_orch: MakeOrch, short_folder: Path
) -> None:
    """Another tmux socket on the same machine: neither target's probe ends the other's."""
    text = script("sh", "-c", "echo up; exec sleep 600", folder=short_folder)
    beside = text + text[text.index("  plain:") :].replace("plain:", "second:").replace(
        "target: local", "target: beside"
    )
    orch = make_orch(beside)
    first = orch.json("run", "plain", "--detach")["run"]
    second = orch.json("run", "second", "--detach")["run"]
    for run in (first, second):
        runs_now(orch, run)
    assert {one["link"] for one in orch.json("status")["targets"]} == {"connected"}
    for run in (first, second):
        orch("stop", run)
        assert orch.json("show", run)["state"] == "stopped"


def test_replace_ends_what_an_ended_run_left_behind(
    make_orch: MakeOrch, short_folder: Path
) -> None:
    """The program forked and ended: `--replace`, which preflight advises, ends the orphan."""
    left = short_folder / "left"
    orphan = f"echo $$ >{left}; exec sleep 600"
    fork = f"setsid sh -c '{orphan}' >/dev/null 2>&1 & until [ -s {left} ]; do sleep 0.05; done"
    orch = make_orch(script("sh", "-c", fork, folder=short_folder))
    orch("run", "plain")
    assert "--replace" in orch("run", "plain", check=1).stderr
    first = int(left.read_text())
    left.unlink()
    orch("run", "plain", "--replace")
    assert not Path(f"/proc/{first}/cwd").exists()
    os.kill(int(left.read_text()), signal.SIGKILL)


def test_a_run_outlives_its_job_in_the_inventory(make_orch: MakeOrch, short_folder: Path) -> None:
    """The job is taken out, the daemon starts anew: the run is watched, and can be stopped."""
    text = script("sh", "-c", "echo up; exec sleep 600", folder=short_folder)
    orch = make_orch(text)
    run = orch.json("run", "--detach")["run"]
    runs_now(orch, run)
    orch("daemon", "stop")
    rewrite(orch, text[: text.index("jobs:")])
    orch.until(lambda: orch.json("show", run)["link"] == "connected")
    assert orch.json("stop", run)["ended"]
    assert orch.json("show", run)["state"] == "stopped"


def test_a_run_stays_where_it_was_started_when_its_job_moves(
    make_orch: MakeOrch, short_folder: Path
) -> None:
    """The job's target is changed under a live run: it is not lost, and stop ends it there."""
    command = ("sh", "-c", "echo up; exec sleep 600")
    orch = make_orch(script(*command, folder=short_folder))
    run = orch.json("run", "--detach")["run"]
    runs_now(orch, run)
    session = orch.json("show", run)["session"]
    orch("daemon", "stop")
    rewrite(orch, script(*command, target="beside", folder=short_folder))
    orch.until(lambda: orch.json("show", run)["link"] == "connected")
    shown = orch.json("show", run)
    assert (shown["state"], shown["target"], shown["session"]) == ("running", "local", session)
    assert orch.json("stop", run)["ended"]


def test_a_run_whose_folder_is_deleted_ends_as_lost(
    make_orch: MakeOrch, short_folder: Path
) -> None:
    """Nothing can tell how it ended any more; it is not running for ever."""
    go = short_folder / "go"
    program = f'echo up; until [ -e {go} ]; do sleep 0.1; done; rm -rf "$ORCH_RUN_DIR"; exit 3'
    orch = make_orch(script("sh", "-c", program, folder=short_folder))
    run = orch.json("run", "--detach")["run"]
    runs_now(orch, run)
    go.touch()
    orch("wait", run, "--timeout", "30", check=100)
    assert orch.json("show", run)["state"] == "lost"


def test_garbage_in_metrics_costs_only_itself(make_orch: MakeOrch, short_folder: Path) -> None:
    """NaN steps, integers of 400 digits, half a surrogate pair: the good line after them counts."""
    huge = "9" * 400
    lines = [
        '{"step": NaN, "loss": NaN}',
        '{"step": Infinity}',
        f'{{"step": {huge}, "loss": {huge}}}',
        "[" * 9999,
        '{"step": 9223372036854775808}',
        '{"phase": "\\ud800"}',
        '{"step": 7, "loss": 2.5}',
    ]
    garbage = short_folder / "garbage"
    garbage.write_text("".join(f"{line}\n" for line in lines))
    program = f'cat {garbage} >"$ORCH_RUN_DIR/metrics.jsonl"'
    orch = make_orch(script("sh", "-c", program, folder=short_folder))
    orch("run")
    shown = orch.json("show", "@1")
    assert (shown["step"], shown["loss"]) == (7, 2.5)
    assert "supervisor.failed" not in orch.log()


def test_an_attempt_that_never_was_is_no_empty_log(make_orch: MakeOrch, short_folder: Path) -> None:
    """`logs --attempt 9` of a run with one attempt is refused, with what there is."""
    orch = make_orch(script("echo", "once", folder=short_folder))
    orch("run")
    assert "from 1 to 1" in orch("logs", "@1", "--attempt", "9", check=2).stderr
    assert orch("logs", "@1", "--attempt", "1").stdout == "once\n"


def test_a_state_folder_that_cannot_be_written_is_said_in_a_sentence(
    make_orch: MakeOrch, short_folder: Path
) -> None:
    """A file stands where the state folder should be: what, where, a remedy, and no traceback."""
    blocked = short_folder / "blocked"
    blocked.write_text("")
    orch = make_orch(script("true", folder=short_folder))
    broken = Orch(folder=orch.folder, env={**orch.env, "XDG_STATE_HOME": str(blocked)})
    said = broken("status", check=1).stderr
    assert "Traceback" not in said
    assert str(blocked) in said
    assert "XDG_STATE_HOME" in said


def test_a_run_that_is_well_is_explained_without_an_error(
    make_orch: MakeOrch, short_folder: Path
) -> None:
    """No incident is an answer (0); no such run is 102."""
    orch = make_orch(script("true", folder=short_folder))
    orch("run")
    assert orch("explain", "@1").stdout == "run 1 of plain has no incident\n"
    assert orch.json("explain", "@1")["incident"] is None
    orch("explain", "@7", check=102)


def test_preflight_refuses_once_with_each_remedy(make_orch: MakeOrch, short_folder: Path) -> None:
    """One FAIL line, its remedy, one last line; a live run without its session is named."""
    orch = make_orch(script("sh", "-c", "echo up; exec sleep 600", folder=short_folder))
    run = orch.json("run", "--detach")["run"]
    runs_now(orch, run)
    refused = orch("run", check=1)
    said = (refused.stdout + refused.stderr).splitlines()
    assert sum("belongs to plain-1, which still runs" in line for line in said) == 1
    assert said[-1] == "orch: preflight refused, nothing was launched"
    assert "left of earlier runs:" not in refused.stderr
    orch("stop", run)


def test_alert_test_and_run_follow_the_inventory_at_once(
    make_orch: MakeOrch, short_folder: Path
) -> None:
    """A sink that was just written is tested; an inventory without jobs says how to get one."""
    orch = make_orch("version: 1\n")
    orch("daemon", "start")
    sink = 'alerts: {sinks: {said: {type: command, command: ["true"]}}}\n'
    rewrite(orch, f"version: 1\n{sink}")
    assert [one["sink"] for one in orch.json("alert", "test", check=None)["results"]] == ["said"]
    for words in (("run",), ("run", "dflash"), ("deploy",)):
        assert "The inventory has no jobs. Add one under `jobs:`." in orch(*words, check=2).stderr


def test_a_bad_edit_hides_nothing_from_a_daemon_that_starts(
    make_orch: MakeOrch, short_folder: Path
) -> None:
    """No daemon runs and the file is broken: runs are shown all the same, nothing new begins."""
    text = script("sh", "-c", "echo up; exec sleep 600", folder=short_folder)
    orch = make_orch(text)
    run = orch.json("run", "--detach")["run"]
    runs_now(orch, run)
    orch("daemon", "stop")
    rewrite(orch, text.replace("workdir", "workdri"))
    assert orch.json("show", run)["state"] == "running"
    assert "workdri" in orch.json("daemon", "status")["inventory_error"]
    refused = orch("run", check=2)
    assert "inventory.yaml:11: jobs.plain.workdri" in refused.stderr
    orch("stop", run)
    assert orch.json("show", run)["state"] == "stopped"


def test_an_inventory_that_never_was_good_starts_no_daemon(make_orch: MakeOrch) -> None:
    """Every fault is said, and nothing is left behind."""
    orch = make_orch("version: 1\nhosts: {here: {tranzport: local}}\n")
    assert "tranzport" in orch("status", check=2).stderr
    assert orch("daemon", "status", check=1).returncode == 1
    assert not list(Path(orch.env["XDG_STATE_HOME"]).glob("orch/*/inventory.good*"))
