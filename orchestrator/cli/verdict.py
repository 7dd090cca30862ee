"""An incident or a verdict in a few lines: what died, where, why, what to do, what it is like."""

import shutil
import sys
from collections.abc import Mapping
from typing import Any

from orchestrator.cli import output

_MAX_COLUMNS = 110


def incident_lines(incident: Mapping[str, Any]) -> list[str]:
    """What a person must know of an incident; the whole traceback is `orch explain`'s."""
    own = {key: incident[key] for key in ("signature", "title")}
    finding = {**incident["finding"], **own}
    return verdict_lines(finding, same_as=incident["same_as"], incident=incident["id"])


def verdict_lines(
    verdict: Mapping[str, Any], *, same_as: str | None, incident: str | None
) -> list[str]:
    """The same for a verdict, which knows no incident that it is like."""
    lines = [
        output.emphasis(f"{verdict.get('title') or 'crash'}  [{verdict['signature']}]", "1;31")
    ]
    place = verdict.get("in_app_frame") or verdict.get("frame")
    deepest = verdict.get("frame")
    if verdict.get("thread") or verdict.get("rank") is not None:
        lines.append(f"  thread  {_where(verdict)}")
    if verdict.get("exception"):
        shown = verdict["exception"]
        lines.append(f"  raised  {shown['type']}: {shown['message']}")
    elif (seen := verdict.get("text")) and seen != verdict.get("cause"):
        lines += _wrapped("  seen    ", seen)
    if place:
        lines.append(f"  at      {_frame(place)}")
    if deepest and deepest != place:
        lines.append(f"  in      {_frame(deepest)}")
    if verdict.get("cause"):
        lines += _wrapped("  cause   ", verdict["cause"])
    for count, step in enumerate(verdict.get("next_steps") or (), start=1):
        lines += _wrapped(f"  {'next' if count == 1 else '    '}    {count}. ", step)
    if same_as:
        like = output.run_number(same_as)
        lines.append(f"  same as {like}: not a fix")
    if incident:
        lines.append(f"  more    orch explain {incident}")
    return lines


def restart_row(run: Mapping[str, Any], moment: float) -> dict[str, str]:
    """What follows from the end by the job's restart policy, as a row of the run; or none."""
    restart = run.get("restart")
    if not restart:
        return {}
    if restart["at"] is None:
        return {"restart": output.harmless(restart["said"])}
    left = restart["at"] - moment
    when = f"starts in {output.duration(left)}" if left > 0 else "waits for its turn"
    return {"restart": f"attempt {run['attempt'] + 1} {when}"}


def _where(verdict: Mapping[str, Any]) -> str:
    rank = verdict.get("rank")
    parts = [verdict.get("thread") or "main", f"rank {rank}" if rank is not None else ""]
    return ", ".join(part for part in parts if part)


def _frame(frame: Mapping[str, Any]) -> str:
    inside = f" in {frame['function']}" if frame.get("function") else ""
    return f"{frame['file']}:{frame['line']}{inside}"


def _wrapped(head: str, text: str) -> list[str]:
    """The text behind its head; on a terminal its lines end before the edge."""
    if not sys.stdout.isatty():
        return [head + text]
    import textwrap

    columns = min(shutil.get_terminal_size().columns, _MAX_COLUMNS)
    behind = " " * len(head)
    return textwrap.wrap(text, columns, initial_indent=head, subsequent_indent=behind) or [head]
