"""diff: what is different between two runs."""

import argparse
from collections.abc import Mapping
from typing import Any

from orchestrator.api.client import quoted
from orchestrator.cli import output
from orchestrator.cli.reach import connect
from orchestrator.core.explain.prose import change_lines


def diff(options: argparse.Namespace) -> int:
    """Print what changed from the earlier run to the later one; one RUN: since the last good."""
    path = f"/v1/runs/{quoted(options.run)}/diff"
    said = connect(options).get(path, {"with": options.other})
    if options.json:
        output.print_json(said)
        return 0
    output.say(f"{_name(said['before'])} -> {_name(said['after'])}")
    output.say(*(f"  {line}" for line in change_lines(said["changes"])))
    if not said["changes"]:
        known = "is known to have " if said["unknown"] else ""
        output.say(f"  nothing {known}changed")
    output.say(*(f"  not known: {one}" for one in said["unknown"]))
    if options.patch and said["diff"]:
        output.say("", *said["diff"].splitlines())
    return 0


def _name(run: Mapping[str, Any]) -> str:
    why = f', "{run["why"]}"' if run["why"] else ""
    return f"{run['run']} ({run['state']}{why})"
