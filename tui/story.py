"""An incident told whole: what died, where, why, what it is like, what was tried, what to do.

Pure: the incident and the fleet become paragraphs of a kind each. A traceback is told with the
user's own frames first, since those are the lines that can be changed.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from orchestrator.api.messages import IncidentView
from tui import text
from tui.cells import Cell
from tui.fleet import Fleet

_FRAME = re.compile(r'^ *File "(?P<file>[^"]+)", line (?P<line>\d+)(?:, in (?P<function>.*))?')
_LIBRARY = re.compile(r"site-packages|dist-packages|/lib(?:64)?/python\d|^<frozen|^torch/")
MAX_TRIED = 8


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A title and its lines; `kind` is the title's."""

    title: str
    lines: tuple[Cell, ...]
    kind: str = "strong"


def story(incident: IncidentView, fleet: Fleet | None, now: float) -> list[Paragraph]:
    """The paragraphs of an incident, those that have something to say."""
    told = [_head(incident, now), _what(incident), _like(incident, fleet, now)]
    finding = incident["finding"]
    cause = finding.get("cause")
    told.append(Paragraph("why", (Cell(text.harmless(cause)),) if cause else ()))
    steps = finding.get("next_steps") or ()
    told.append(Paragraph("what to do", tuple(_numbered(steps))))
    told.append(Paragraph("your frames", tuple(user_frames(finding.get("traceback") or ""))))
    told.append(Paragraph("traceback", tuple(traceback_lines(finding.get("traceback") or ""))))
    evidence = finding.get("evidence") or ()
    if not finding.get("traceback"):
        told.append(Paragraph("evidence", tuple(Cell(text.harmless(line)) for line in evidence)))
    references = finding.get("references") or ()
    told.append(Paragraph("more", tuple(Cell(text.harmless(one), "muted") for one in references)))
    return [one for one in told if one.lines]


def _head(incident: IncidentView, now: float) -> Paragraph:
    kind = {"critical": "bad", "warning": "warn"}.get(incident["severity"], "strong")
    opened = text.age(now - incident["opened_at"])
    words = f"{incident['severity']}, {incident['state']}, opened {opened} ago"
    if incident["occurrences"] > 1:
        words += f", seen {incident['occurrences']} times"
    title = f"! {text.harmless(incident['title'] or incident['signature'])}"
    return Paragraph(title, (Cell(f"{incident['signature']}: {words}", "muted"),), kind)


def _what(incident: IncidentView) -> Paragraph:
    finding = incident["finding"]
    where = f"{incident['run']}, attempt {incident['attempt']}, on {incident['target']}"
    lines = [Cell(text.harmless(where))]
    if place := place_text(finding):
        lines.append(Cell(place))
    if raised := raised_text(finding):
        lines.append(Cell(raised, "bad"))
    deepest = finding.get("frame")
    if deepest and deepest != finding.get("in_app_frame"):
        lines.append(Cell(f"raised in {frame_text(deepest)}", "muted"))
    return Paragraph("what died", tuple(lines))


def _like(incident: IncidentView, fleet: Fleet | None, now: float) -> Paragraph:
    """What it is the same as, and what was tried in the runs that crashed alike."""
    lines = []
    if incident["same_as"]:
        lines.append(Cell(f"same as {run_name(incident['same_as'])}: not a fix", "warn"))
    alike = _alike(incident, fleet) if fleet else []
    for other in alike[:MAX_TRIED]:
        run = fleet.runs.get(other["run"]) if fleet else None
        why = text.harmless(run["why"]) if run and run["why"] else "no reason given"
        ago = text.age(now - other["opened_at"])
        this = " (this one)" if other["id"] == incident["id"] else ""
        lines.append(Cell(f"{other['run']}{this}, {ago} ago: {why}"))
    if len(alike) > MAX_TRIED:
        lines.append(Cell(f"and {len(alike) - MAX_TRIED} more", "muted"))
    return Paragraph("tried, and crashed alike", tuple(lines))


def _alike(incident: IncidentView, fleet: Fleet) -> list[IncidentView]:
    """Incidents of the same job with the same fingerprint or family, oldest first."""

    def same(other: IncidentView) -> bool:
        family = incident["family"] is not None and other["family"] == incident["family"]
        return family or other["fingerprint"] == incident["fingerprint"]

    found = [one for one in fleet.incidents.values() if one["job"] == incident["job"] and same(one)]
    return sorted(found, key=lambda one: one["opened_at"]) if len(found) > 1 else []


def _numbered(steps: tuple[str, ...] | list[str]) -> Iterator[Cell]:
    for number, step in enumerate(steps, start=1):
        yield Cell(f"{number}. {text.harmless(str(step))}")


def is_library(file: str) -> bool:
    """Whether a frame's file is somebody else's."""
    return _LIBRARY.search(file) is not None


def user_frames(traceback: str) -> list[Cell]:
    """The user's own frames, the innermost first, each with its line of source."""
    found: list[list[Cell]] = []
    inside = False
    for raw in traceback.splitlines():
        line = text.harmless(raw)
        frame = _FRAME.match(line)
        if frame:
            inside = not is_library(frame["file"])
            if inside:
                function = f" in {frame['function']}" if frame["function"] else ""
                found.append([Cell(f"{frame['file']}:{frame['line']}{function}", "strong")])
        elif inside and line.startswith("    ") and not set(line.strip()) <= set("^~"):
            found[-1].append(Cell(f"    {line.strip()}"))
        elif not line.startswith(" "):
            inside = False
    return [cell for frame_lines in reversed(found) for cell in frame_lines]


def traceback_lines(traceback: str) -> Iterator[Cell]:
    """The whole traceback; frames of libraries are muted, the exception is not."""
    kind = "plain"
    for raw in traceback.splitlines():
        line = text.harmless(raw)
        frame = _FRAME.match(line)
        if frame:
            kind = "muted" if is_library(frame["file"]) else "strong"
        elif not line.startswith(" "):
            kind = "plain" if line.startswith(("Traceback", "Exception in")) else "bad"
        yield Cell(line, kind)


# --- in a few lines ------------------------------------------------------------------------------


def incident_lines(incident: IncidentView, now: float) -> list[Cell]:
    """An incident in a few lines: what, where, why, what it is like, and the first thing to do."""
    finding = incident["finding"]
    kind = {"critical": "bad", "warning": "warn"}.get(incident["severity"], "plain")
    opened = text.age(now - incident["opened_at"])
    count = f", {incident['occurrences']} times" if incident["occurrences"] > 1 else ""
    title = text.harmless(incident["title"] or incident["signature"])
    lines = [Cell(f"! {title} [{incident['signature']}]", kind)]
    lines.append(Cell(f"{incident['state']}, {opened} ago{count}", "muted"))
    if raised := raised_text(finding):
        lines.append(Cell(raised))
    if place := place_text(finding):
        lines.append(Cell(place, "plain"))
    if incident["same_as"]:
        lines.append(Cell(f"same as {run_name(incident['same_as'])}: not a fix", "warn"))
    if steps := finding.get("next_steps"):
        lines.append(Cell(f"next: {text.harmless(str(steps[0]))}", "strong"))
    return lines


def run_name(run_id: str) -> str:
    """`run 1` for dflash-1, as the alert and the command line say it."""
    return text.harmless(f"run {run_id.rpartition('-')[2]}")


def raised_text(finding: Mapping[str, Any]) -> str:
    """`RuntimeError: Detected that ...`."""
    shown = finding.get("exception")
    return text.harmless(f"{shown['type']}: {shown['message']}") if shown else ""


def place_text(finding: Mapping[str, Any]) -> str:
    """`thread Thread-3 (draft), rank 1 at dflash_model.py:88 in forward`."""
    who = [f"thread {finding['thread']}"] if finding.get("thread") else []
    who += [f"rank {finding['rank']}"] if finding.get("rank") is not None else []
    place = finding.get("in_app_frame") or finding.get("frame")
    at = f"at {frame_text(place)}" if place else ""
    return text.harmless(" ".join(filter(None, [", ".join(who), at])))


def place_in_log(finding: Mapping[str, Any]) -> int | None:
    """Byte offset of the evidence: the finding's own, or that of a verdict's root finding."""
    if "offset" in finding:
        return int(finding["offset"])
    found = [one for one in finding.get("findings") or () if "offset" in one]
    roots = [one for one in found if one.get("role") == "root"]
    return int((roots or found)[0]["offset"]) if found else None


def frame_text(frame: Mapping[str, Any]) -> str:
    """`file:line in function`."""
    inside = f" in {frame['function']}" if frame.get("function") else ""
    return text.harmless(f"{frame['file']}:{frame['line']}{inside}")
