"""show: one run whole, with its attempts and the standing of its incident, as a person reads it."""

import argparse
from collections.abc import Mapping
from typing import Any

from orchestrator.api.client import quoted
from orchestrator.cli import output
from orchestrator.cli.reach import connect
from orchestrator.cli.verdict import restart_row, verdict_lines
from orchestrator.core.explain import attempt_end


def show(options: argparse.Namespace) -> int:
    """Print one run whole."""
    run = connect(options).get(f"/v1/runs/{quoted(options.run)}")
    if options.json:
        output.print_json(run)
        return 0
    output.say(*run_lines(run, output.now()))
    return 0


def run_lines(run: Mapping[str, Any], moment: float) -> list[str]:
    """A run as lines of `key  value`."""
    rows = {
        "state": run["state"] + (" (its tmux session is gone)" if run["detached"] else ""),
        **restart_row(run, moment),
        "why": run["why"] or "-",
        "target": f"{run['target']} ({run['link']}, seen {output.age(run['seen_at'], moment)})",
        "attempt": str(run["attempt"]),
        "exit": exit_text(run),
        "took": output.duration(_took(run, moment)),
        "step": output.number(run["step"]),
        "loss": output.number(run["loss"]),
        "phase": run["phase"] or "-",
        "output": f"{output.size(run['log_bytes'])}, newest {output.age(run['output_at'], moment)}",
        "release": run["release"] or "-",
        "session": run["session"],
        "folder": run["directory"],
        "incident": _incident(run),
    }
    if place := run.get("log_at"):
        rows["output"] += f"; the rest is at {place}, and comes from the target when asked"
    if lost := lost_text(run):
        rows["output"] += f"; {lost}"
    lines = [f"{run['id']}{'  (forced)' if run['forced'] else ''}"]
    lines += [f"  {key:<9}{value}" for key, value in rows.items()]
    attempts = run.get("attempts", ())
    if len(attempts) > 1:
        lines += ["", "attempts:", *(_attempt_line(one) for one in attempts)]
    if run["verdict"] and run["verdict"].get("crash"):
        lines += ["", *verdict_lines(run["verdict"], same_as=None, incident=run["incident"])]
    return lines


def _took(run: Mapping[str, Any], moment: float) -> float | None:
    """How long the newest attempt lived: it is over in a back-off, though the run is not."""
    began, ended = run["started_at"], run["ended_at"]
    if attempts := run.get("attempts"):
        newest = attempts[-1]
        began, ended = newest["started_at"], newest["ended_at"] or ended
    return None if began is None else (ended or moment) - began


def _incident(run: Mapping[str, Any]) -> str:
    if not run["incident"]:
        return "-"
    state = f" ({run['incident_state']})" if run.get("incident_state") else ""
    return f"{run['incident']}{state}"


def _attempt_line(one: Mapping[str, Any]) -> str:
    return f"  {one['number']:<9}{attempt_end(one)}"


_LOST_BY = {
    "disk_full": "the disk there was full",
    "truncated": "its file was truncated",
    "rotated": "its file was rotated",
}


def lost_text(run: Mapping[str, Any]) -> str:
    """How much of its output no file has, and why; empty where nothing is missing."""
    size, why = (run["metrics"].get(f"output_lost_{name}") for name in ("bytes", "why"))
    if not size:
        return ""
    return f"{output.size(size)} are lost: {_LOST_BY.get(why, output.harmless(str(why)))}"


def exit_text(run: Mapping[str, Any]) -> str:
    """`code 1`, `signal 9` or `-`."""
    if run["signal"] is not None:
        return f"signal {run['signal']}"
    return f"code {run['exit_code']}" if run["exit_code"] is not None else "-"
