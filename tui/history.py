"""What the daemon tells of a run's past and surroundings, as paragraphs: pure.

Owns the words and the order: the timeline, what is different since the last good run, what the run
found around it.
"""

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tui import text
from tui.cells import Cell
from tui.story import Paragraph

_KINDS = {
    "finding": "warn",
    "incident": "bad",
    "command": "strong",
    "end": "strong",
    "launch": "good",
    "phase": "muted",
}


def timeline(document: Mapping[str, Any]) -> list[Paragraph]:
    """What happened, oldest first: the time of day, how long after the first, what."""
    events = document["events"]
    if not events:
        return [Paragraph("history", (Cell("Nothing is known of it.", "muted"),))]
    first, lines, day = events[0]["at"], [], ""
    for event in events:
        at = time.localtime(event["at"])
        if (date := time.strftime("%a %d %b %Y", at)) != day:
            day = date
            lines.append(Cell(day, "muted"))
        after = text.duration(event["at"] - first)
        said = f"{time.strftime('%H:%M:%S', at)} {'+' + after:>8}  {event['kind']:<9}"
        kind = _KINDS.get(event["kind"], "plain")
        lines.append(Cell(f"{said} {text.harmless(event['text'])}", kind))
    return [Paragraph(f"history of {document['run']}", tuple(lines))]


def changes(document: Mapping[str, Any]) -> list[Paragraph]:
    """What is different from one run to a later one, what alarms first; the diff of the code."""
    before, after = document["before"], document["after"]
    found = [
        Cell(text.harmless(f"{one['kind']}: {one['text']}"), "warn" if one["alarming"] else "plain")
        for one in document["changes"]
    ]
    told = [
        Paragraph(
            f"from {_named(before)} to {_named(after)}",
            tuple(found) or (Cell("nothing is known to have changed", "muted"),),
        )
    ]
    unknown = tuple(Cell(text.harmless(one), "muted") for one in document["unknown"])
    told += [Paragraph("not known", unknown)] if unknown else []
    patch = tuple(_patch(document["diff"])) if document["diff"] else ()
    return [*told, *([Paragraph("code", patch)] if patch else [])]


def _named(run: Mapping[str, Any]) -> str:
    return text.harmless(f"{run['run']} ({run['state']})")


def _patch(diff: str) -> Iterator[Cell]:
    for line in diff.splitlines():
        kind = {"+": "good", "-": "bad", "@": "muted"}.get(line[:1], "plain")
        yield Cell(text.harmless(line), kind)


def environment(document: Mapping[str, Any]) -> list[Paragraph]:
    """Each look at what the run found around it: versions, drivers, caches, configuration."""
    told = []
    for look in document["looks"]:
        clock = time.strftime("%H:%M:%S", time.localtime(look["at"]))
        of = f"attempt {look['attempt']}" if look["attempt"] else "its release"
        title = f"{of}, at its {look['moment']}, {clock}"
        whole = dict(look["fingerprint"])
        packages = {
            name: one["version"] for name, one in (whole.pop("packages", None) or {}).items()
        }
        told.append(Paragraph(title, tuple(_facts(whole))))
        told.append(Paragraph("packages", tuple(_facts(dict(sorted(packages.items()))))))
    if document["looks"]:
        facts = document["looks"][-1]["configuration"]
        told.insert(1, Paragraph("configuration", tuple(_facts(facts))))
    told = [one for one in told if one.lines]
    return told or [Paragraph("environment", (Cell("Nobody looked at it.", "muted"),))]


def earlier_releases(entries: Sequence[Mapping[str, Any]]) -> list[str]:
    """Digests of a job's deploys and rollbacks, newest first, without the current one."""
    digests = dict.fromkeys(str(one["digest"]) for one in entries)
    return list(digests)[1:]


def _facts(facts: Mapping[str, Any], above: str = "") -> Iterator[Cell]:
    """One line a fact; facts of facts as `a.b`."""
    for name, value in facts.items():
        full = f"{above}{name}"
        if isinstance(value, Mapping) and value:
            yield from _facts(value, f"{full}.")
        elif name.endswith("_at") and isinstance(value, float):
            at = time.strftime("%d %b %H:%M:%S", time.localtime(value))
            yield Cell(text.harmless(f"{full}: {at}"))
        elif value not in (None, "", [], {}) and name != "at":
            said = _counted(value) if isinstance(value, list) else str(value)
            yield Cell(text.harmless(f"{full}: {said}"))


def _counted(values: list[Any]) -> str:
    """`8 x NVIDIA H100, NVIDIA L4`: each once, so that eight alike fit into a line."""
    numbers = Counter(map(str, values))
    return ", ".join(f"{number} x {one}" if number > 1 else one for one, number in numbers.items())
