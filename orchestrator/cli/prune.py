"""prune: what is old goes, on the targets and here; with --dry-run it is only shown."""

import argparse
from collections.abc import Iterator, Mapping
from typing import Any

from orchestrator.cli import output
from orchestrator.cli.reach import connect
from orchestrator.core.errors import TargetError

WITHIN_S = 900.0


def prune(options: argparse.Namespace) -> int:
    """Remove old releases, run folders and logs; 4 where a target could not be asked."""
    body = {"dry_run": options.dry_run}
    if options.older_than is not None:
        body["run_age_s"] = options.older_than
    said = connect(options).call("POST", "/v1/prune", body, timeout_s=WITHIN_S)
    if options.json:
        output.print_json(said)
    else:
        output.say(*lines_of(said))
    return TargetError.exit_code if any(one["error"] for one in said["targets"]) else 0


def lines_of(said: Mapping[str, Any]) -> Iterator[str]:
    """What is printed of the daemon's answer."""
    goes = "would go" if said["dry_run"] else "went"
    for one in said["targets"]:
        where = f"{one['job']} on {one['target']}"
        if one["error"]:
            yield f"{where}: {one['error']}"
            continue
        yield f"{where}: {_what(one) or 'nothing'} {goes}"
        yield from (f"  release {digest}" for digest in one["releases"])
        yield from (f"  run {run['name']}  {output.size(run['bytes'])}" for run in one["runs"])
        yield from (f"  tmux session {name}, which has ended" for name in one["sessions"])
    gone = f"{_count(said['logs'], 'log')} ({output.size(said['log_bytes'])}) {goes}"
    yield f"here: {gone if said['logs'] else f'no log {goes}'}"
    yield from (f"  log of {run}" for run in said["logs"])


def _what(one: Mapping[str, Any]) -> str:
    """`2 releases and 1 run folder (3 MiB)`: what there is of each kind, else nothing."""
    freed = output.size(sum(run["bytes"] for run in one["runs"]))
    said = (
        (one["releases"], _count(one["releases"], "release")),
        (one["runs"], f"{_count(one['runs'], 'run folder')} ({freed})"),
        (one["sessions"], _count(one["sessions"], "ended tmux session")),
    )
    return " and ".join(words for things, words in said if things)


def _count(things: list[Any], word: str) -> str:
    return f"{len(things)} {word}{'' if len(things) == 1 else 's'}"
