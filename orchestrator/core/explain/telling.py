"""The story of an incident -> its facts and sentences, as one document; no layout.

Owns what counts as the same failure, what became of what was tried, and where in the user's own
code it was.
"""

import posixpath
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from orchestrator.core.explain.story import Occurrence, Story, ordered
from orchestrator.core.model import RESTART, Attempt, Incident, Run, RunState

SCHEMA = 1
MAX_TRIED = 12
_TAG = re.compile(r"^(?:\[\w+\]:)+")
"""Whose line it is, as torch and torchrun print it."""
_RELEASE = re.compile(r"^.*/(?:releases/[0-9a-f]{6,}|current)/")

Document = dict[str, Any]


def explain(story: Story) -> Document:
    """The explanation as JSON's types; prose.py turns it into text."""
    run, incident, found = story.run, story.incident, story.incident.finding
    seen = [one for one in story.earlier if same_failure(one.incident, incident)]
    return {
        "schema": SCHEMA,
        "incident": incident.id,
        "run": run.id,
        "number": run.number,
        "job": run.job,
        "target": run.target,
        "why": run.why,
        "title": incident.title,
        "signature": incident.signature,
        "severity": incident.severity.value,
        "family": incident.family,
        "fingerprint": incident.fingerprint,
        "state": incident.state.value,
        "opened_at": incident.opened_at,
        "resolved_at": incident.resolved_at,
        "occurrences": incident.occurrences,
        "died": _died(story),
        "attempts": attempts_told(run, story.attempts),
        "run_state": run.state.value,
        "text": str(found.get("text") or ""),
        "raised": found.get("exception"),
        "root_raised": found.get("root_exception"),
        "where": _place(found.get("in_app_frame") or found.get("frame"), found),
        "inside": _place(found.get("frame"), found) if found.get("in_app_frame") else None,
        "cause": str(found.get("cause") or found.get("text") or ""),
        "restart": _restart(run, incident),
        "certainty": found.get("certainty"),
        "certainty_reason": found.get("certainty_reason"),
        "same_as": incident.same_as,
        "seen_before": [_seen(one, incident) for one in seen],
        "tried": _tried(story, seen),
        "last_good": _good(story.good),
        "finished_later": _good(story.later),
        "changes": [one.to_json() for one in ordered(story.changes)],
        "unknown": list(story.unknown),
        "next_steps": [str(step) for step in found.get("next_steps") or ()],
        "references": [str(link) for link in found.get("references") or ()],
        "evidence": _evidence(found),
        "log": {"attempt": incident.attempt, "line": found.get("line") or None},
        "traceback": str(found.get("traceback") or ""),
    }


def same_failure(one: Incident | None, other: Incident) -> bool:
    """Whether two incidents are the same failure, or two faces of one fault."""
    if one is None:
        return False
    # A family named like its signature joins nothing: two python_errors may share nothing else.
    faces = other.family is not None and other.family != other.signature
    return one.fingerprint == other.fingerprint or (faces and one.family == other.family)


def moment(at: float | None) -> str:
    """Unix seconds as `2026-11-29 19:42:25 UTC`."""
    if at is None:
        return "-"
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def lasted(seconds: float | None) -> str:
    """`40 s`, `12 min`, `3 h 20 min`."""
    if seconds is None or seconds < 0:
        return "-"
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def attempts_told(run: Run, attempts: tuple[Attempt, ...]) -> list[Document]:
    """Each attempt of a run as JSON's types, first one first."""
    return [
        {
            "number": one.number,
            "state": _state(run, one),
            "started_at": one.started_at,
            "ended_at": one.ended_at,
            "exit_code": one.exit_code,
            "signal": one.signal,
        }
        for one in attempts
    ]


def _died(story: Story) -> Document:
    """The end of the attempt in which the incident was seen last; others may have followed."""
    run, incident, found = story.run, story.incident, story.incident.finding
    own, newest = _own(story), incident.attempt >= run.attempt
    at = _seen_at(incident, own)
    return {
        "at": at,
        "at_text": moment(at),
        "after_s": None if own.started_at is None else max(0.0, at - own.started_at),
        "attempt": own.number,
        "step": run.step if newest else None,  # only the newest attempt's are kept
        "loss": run.loss if newest else None,
        "thread": found.get("thread"),
        "rank": found.get("rank"),
        "lost": found.get("ends"),
        "state": _state(run, own),
        "exit_code": own.exit_code,
        "signal": own.signal,
        "stop_reason": story.stop_reason if newest else None,
    }


def _own(story: Story) -> Attempt:
    run, number = story.run, story.incident.attempt
    for one in story.attempts:
        if one.number == number:
            return one
    if number < run.attempt:
        return Attempt(number=number, directory="")
    return Attempt(
        number=number,
        directory="",
        started_at=run.started_at,
        ended_at=run.ended_at,
        exit_code=run.exit_code,
        signal=run.signal,
    )


def _seen_at(incident: Incident, own: Attempt) -> float:
    """When it was seen in its attempt: it may be open since an earlier one."""
    ended = own.ended_at or float("inf")
    if own.started_at is not None and incident.opened_at < own.started_at:
        return max(own.started_at, min(incident.updated_at, ended))
    if incident.finding.get("ends") == "process":
        return min(incident.opened_at, ended)  # a daemon may have come back long after the end
    return incident.opened_at


def _state(run: Run, attempt: Attempt) -> str:
    if attempt.number >= run.attempt and run.state is not RunState.BACKOFF:
        return run.state.value
    known = (attempt.exit_code, attempt.signal) != (None, None)
    return (RunState.FAILED if known else RunState.LOST).value


def _restart(run: Run, incident: Incident) -> str:
    """What the job's policy makes of the end that this incident stands for; not once it is past."""
    restart = (run.verdict or {}).get(RESTART)
    past = incident.attempt < run.attempt or run.state is RunState.STOPPED
    return str(restart["said"]) if restart and run.incident == incident.id and not past else ""


def _place(frame: Mapping[str, Any] | None, found: Mapping[str, Any]) -> Document | None:
    """A frame, its path as the user knows it, and the line of source that the traceback shows."""
    if not frame:
        return None
    path = str(frame["file"])
    return {
        "file": _RELEASE.sub("", path),
        "path": path,
        "line": frame["line"],
        "function": frame["function"],
        "source": _source(path, int(frame["line"]), str(found.get("traceback") or "")),
    }


def _source(path: str, line: int, traceback: str) -> str:
    name = re.escape(posixpath.basename(path))
    pattern = rf'{name}"?, line {line}\b[^\n]*\n\s*(?!File )([^\n]+)'
    shown = re.search(pattern, traceback)
    source = _TAG.sub("", shown[1]).strip() if shown else ""
    return "" if set(source) <= set("^~ ") else source


def _seen(one: Occurrence, incident: Incident) -> Document:
    assert one.incident is not None
    return {
        "run": one.run.id,
        "number": one.run.number,
        "why": one.run.why,
        "at": one.incident.opened_at,
        "signature": one.incident.signature,
        "same_face": one.incident.fingerprint == incident.fingerprint,
        "release": one.run.release,
    }


def _tried(story: Story, seen: list[Occurrence]) -> list[Document]:
    """The runs since the failure was first seen, and what became of each; the newest MAX_TRIED."""
    if not seen:
        return []
    first = seen[0].run.number
    since = [one for one in story.earlier if one.run.number >= first]
    return [
        {
            "run": one.run.id,
            "number": one.run.number,
            "why": one.run.why,
            "state": one.run.state.value,
            "release": one.run.release,
            "became": _became(one, story.incident, is_first=one.run.number == first),
        }
        for one in since[-MAX_TRIED:]
    ]


def _became(one: Occurrence, incident: Incident, *, is_first: bool) -> str:
    after = f" after {lasted(_length(one.run))}" if _length(one.run) is not None else ""
    if same_failure(one.incident, incident):
        assert one.incident is not None
        if one.incident.fingerprint == incident.fingerprint:
            said = f"died of this{after}"
        else:
            said = f"died of the same fault, seen as {one.incident.signature},{after}"
        return said if is_first else f"{said}: not a fix"
    match one.run.state:
        case RunState.FINISHED:
            return f"finished{after}"
        case RunState.FAILED | RunState.LOST:
            other = one.incident.signature if one.incident else "nothing known"
            return f"died of something else{after}: {other}"
        case RunState.STOPPED:
            return f"was stopped{after}"
        case _:
            return f"is {one.run.state.value}"


def _length(run: Run) -> float | None:
    if run.started_at is None or run.ended_at is None:
        return None
    return run.ended_at - run.started_at


def _good(run: Run | None) -> Document | None:
    if run is None:
        return None
    return {
        "run": run.id,
        "number": run.number,
        "why": run.why,
        "ended_at": run.ended_at,
        "ended_at_text": moment(run.ended_at),
        "step": run.step,
        "release": run.release,
    }


def _evidence(found: Mapping[str, Any]) -> list[str]:
    """Lines of the log, each with its number in front."""
    lines = [str(line) for line in found.get("evidence") or ()]
    if lines or not found.get("text"):
        return lines
    number = found.get("line")
    return [f"{number}: {found['text']}" if number else str(found["text"])]
