"""releases: what a job's targets have, where it came from and what its last run came to."""

import argparse
from collections.abc import Iterator, Mapping
from typing import Any

from orchestrator.cli import output
from orchestrator.cli.reach import connect
from orchestrator.core.errors import TargetError

_COMMIT_CHARS = 10
Said = Mapping[str, Any]


def releases(options: argparse.Namespace) -> int:
    """List the releases of each target, newest deploy first; 4 where one could not be asked."""
    said = connect(options).get("/v1/releases/there", {"job": options.job})
    if options.json:
        output.print_json(said)
    else:
        for one in said["targets"]:
            output.say(*_lines(one))
    return TargetError.exit_code if any(one["error"] for one in said["targets"]) else 0


def _lines(one: Said) -> Iterator[str]:
    where = f"{one['job']} on {one['target']}"
    if one["error"]:
        yield f"{where}: {one['error']}"
        return
    count = len(one["releases"])
    yield f"{where}: {count} release{'' if count == 1 else 's'}; `orch prune` keeps {one['keep']}"
    if not count:
        return
    heads = ("RELEASE", "WHEN", "", "LAST RUN", "BY", "FROM")
    moment = output.now()
    rows = [
        (
            release["digest"],
            output.age(release["at"], moment),
            _place(release, one["current"]),
            _last_run(release["last_run"]),
            release["by"] or "-",
            _origin(release),
        )
        for release in one["releases"]
    ]
    yield from (f"  {line}" for line in output.table(heads, rows, spare=("BY",)))
    kept = next((release["diff"] for release in one["releases"] if release["diff"]), None)
    if kept:
        yield "  what was changed since the commit lies beside each, as in"
        yield f"  orch exec {one['target']} -- cat {kept}"


def _place(release: Said, current: str | None) -> str:
    if release["digest"] == current:
        return "current"
    return "in use" if release["in_use"] else ""


def _last_run(run: Said | None) -> str:
    return f"{run['run']} {run['state']}" if run else "-"


def _origin(release: Said) -> str:
    if not release["commit"]:
        return "no commit"
    branch = f" of {release['branch']}" if release["branch"] else ""
    changed = ", with changes" if release["dirty"] else ""
    return f"{release['commit'][:_COMMIT_CHARS]}{branch}{changed}"
