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
        output.say(*_lines(said))
    return TargetError.exit_code if any(one["error"] for one in said["targets"]) else 0


def _lines(said: Mapping[str, Any]) -> Iterator[str]:
    goes = "would go" if said["dry_run"] else "went"
    for one in said["targets"]:
        where = f"{one['job']} on {one['target']}"
        if one["error"]:
            yield f"{where}: {one['error']}"
            continue
        freed = sum(run["bytes"] for run in one["runs"])
        yield (
            f"{where}: {_count(one['releases'], 'release')} and {_count(one['runs'], 'run folder')}"
            f" ({output.size(freed)}) {goes}"
        )
        yield from (f"  release {digest}" for digest in one["releases"])
        yield from (f"  run {run['name']}  {output.size(run['bytes'])}" for run in one["runs"])
        yield from (f"  tmux session {name}, which has ended" for name in one["sessions"])
    yield f"here: {_count(said['logs'], 'log')} ({output.size(said['log_bytes'])}) {goes}"
    yield from (f"  log of {run}" for run in said["logs"])


def _count(things: list[Any], word: str) -> str:
    return f"{len(things)} {word}{'' if len(things) == 1 else 's'}"
