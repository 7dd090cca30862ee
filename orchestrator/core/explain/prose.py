"""An explanation as text for a terminal, and as Markdown to paste into an issue; layout alone."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from orchestrator.core.explain.telling import lasted, moment

Document = Mapping[str, Any]
AROUND_LINES = 10

_LIVING = frozenset({"starting", "running", "stopping"})
_RUN = {
    **dict.fromkeys(("pending", "starting", "running", "stopping"), "goes on"),
    **{"backoff": "waits for its next attempt", "finished": "finished", "failed": "failed"},
    **{"stopped": "was stopped", "lost": "is lost"},
}
"""Each state of a run, as the end of a sentence."""


def text(said: Document) -> str:
    """For a terminal: what died first, the whole traceback last."""
    lines = [f"run {said['number']} of {said['job']} on {said['target']}: {said['title']}"]
    lines += [f"  {name:<8}{value}" for name, value in _facts(said)]
    for head, body in _sections(said):
        lines += ["", f"{head}:", *(f"  {line}" for line in body)]
    if said["traceback"]:
        lines += ["", "Traceback:", said["traceback"].rstrip()]
    return "\n".join(lines)


def markdown(said: Document) -> str:
    """For an issue: the same, with the evidence in fences that nothing in it can end."""
    lines = [f"### run {said['number']} of {said['job']}: {said['title']}", ""]
    lines += [f"- **{name}**: {_inline(value)}" for name, value in _facts(said)]
    for head, body in _sections(said):
        lines += ["", f"#### {head}", ""]
        if head.startswith("Evidence"):
            lines += _fenced("\n".join(body))
        else:
            lines += [_item(line) for line in body]
    if said["traceback"]:
        lines += ["", "<details><summary>Traceback</summary>", ""]
        lines += [*_fenced(said["traceback"].rstrip()), "", "</details>"]
    return "\n".join(lines) + "\n"


def _facts(said: Document) -> Iterator[tuple[str, str]]:
    died = said["died"]
    if died["lost"] is None and died["state"] in _LIVING:
        yield "seen", f"{died['at_text']}{_progress(said)}: nothing has died, the run goes on"
    elif died["lost"] is None and died["state"] == "finished":
        yield "seen", f"{died['at_text']}{_after(said)}: nothing died, the run finished"
    else:
        yield "died", f"{died['at_text']}{_progress(said)}: {_lost(died)}"
    yield "state", _standing(said)
    yield "what", f"{said['signature']} ({said['severity']}{_firm(said)})"
    if said["signature"] == "expectation_failed":
        yield "broken", said["text"]
    for key, word in (("root_raised", "first"), ("raised", "raised")):
        if raised := said[key]:
            yield word, f"{raised['type']}: {raised['message']}"
    if where := said["where"]:
        yield "at", _place(where)
        if where["source"]:
            yield "line", where["source"]
    if said["inside"] and said["inside"]["path"] != (said["where"] or {}).get("path"):
        yield "inside", _place(said["inside"])
    if said["why"]:
        yield "tried", f'"{said["why"]}"'


def _standing(said: Document) -> str:
    """Whether the incident is open, and since when or until when."""
    often = f", seen {said['occurrences']} times in this run" if said["occurrences"] > 1 else ""
    match said["state"]:
        case "resolved":
            return f"resolved {moment(said['resolved_at'])}{often}"
        case "acknowledged":
            return f"acknowledged, open since {moment(said['opened_at'])}{often}"
        case _:
            return f"open since {moment(said['opened_at'])}{often}"


def _after(said: Document) -> str:
    died = said["died"]
    if died["after_s"] is None:
        return f", in attempt {died['attempt']}" if len(said["attempts"]) > 1 else ""
    whose = "its start" if len(said["attempts"]) < 2 else f"the start of attempt {died['attempt']}"
    return f", {lasted(died['after_s'])} after {whose}"


def _progress(said: Document) -> str:
    died = said["died"]
    # A run that outlived its thread to a good end went on counting: its last step is a later one.
    outlived = died["lost"] == "thread" and died["state"] == "finished"
    known = died["step"] is not None and not outlived
    return _after(said) + (f", at step {died['step']}" if known else "")


def _lost(died: Document) -> str:
    rank = f" of rank {died['rank']}" if died["rank"] is not None else ""
    if died["lost"] == "thread":
        who = f"{died['thread'] or 'a thread'}{rank}"
    elif died["lost"] == "rank" and died["rank"] is not None:
        who = f"rank {died['rank']}"
    else:
        who = "the process" + (f", in {died['thread']}{rank}" if died["thread"] else rank)
    if died["state"] in _LIVING:
        return f"{who}; the process still lives"
    if died["stop_reason"] == "stop_on":
        return f"{who}; orch ended the run then, as its `stop_on` asks"
    whole = "the process" if died["lost"] == "thread" else "it"
    if died["signal"] is not None:
        return f"{who}; {whole} was ended by signal {died['signal']}"
    if died["exit_code"] is not None:
        return f"{who}; {whole} ended with exit code {died['exit_code']}"
    return f"{who}; the run is {died['state']}"


def _firm(said: Document) -> str:
    if said["certainty"] in {None, "certain"}:
        return ""
    reason = f": {said['certainty_reason']}" if said["certainty_reason"] else ""
    return f", {said['certainty']}{reason}"


def _place(place: Document) -> str:
    inside = f" in {place['function']}" if place["function"] else ""
    return f"{place['file']}:{place['line']}{inside}"


def _sections(said: Document) -> Iterator[tuple[str, list[str]]]:
    if said["cause"]:
        yield "Why", [said["cause"]]
    if said["restart"]:
        yield "Then", [said["restart"]]
    if len(said["attempts"]) > 1:
        yield f"Attempts; the run {_RUN[said['run_state']]}", [*_attempts(said)]
    if said["seen_before"]:
        count = len(said["seen_before"])
        times = "once" if count == 1 else f"{count} times"
        first = said["seen_before"][0]["number"]
        yield f"Seen before {times}, first in run {first}", [*map(_tried, said["tried"])]
    if head := _since(said):
        yield head, [*_changes(said)]
    if said["next_steps"]:
        yield "Next", [f"{number}. {step}" for number, step in enumerate(said["next_steps"], 1)]
    if said["references"]:
        yield "See", list(said["references"])
    if said["evidence"]:
        attempt = said["log"]["attempt"]
        where = f"orch logs {said['run']} --attempt {attempt} --raw"
        yield f"Evidence (lines of `{where}`)", [*said["evidence"], *_around(where, said)]


def _attempts(said: Document) -> Iterator[str]:
    for one in said["attempts"]:
        this = " (told here)" if one["number"] == said["died"]["attempt"] else ""
        yield f"attempt {one['number']}{this}: {attempt_end(one)}"


def attempt_end(one: Document) -> str:
    """`ended with exit code 1 after 12 s`; an attempt of the documents of explain and show."""
    took = ""
    if one["started_at"] is not None and one["ended_at"] is not None:
        took = f" after {lasted(one['ended_at'] - one['started_at'])}"
    if one["signal"] is not None:
        return f"ended by signal {one['signal']}{took}"
    if one["exit_code"] is not None:
        return f"ended with exit code {one['exit_code']}{took}"
    return f"{one['state']}{took}"


def _around(where: str, said: Document) -> Iterator[str]:
    """The command that prints the log around the evidence."""
    if line := said["log"]["line"]:
        first, last = max(1, line - AROUND_LINES), line + AROUND_LINES
        yield f"{where} | sed -n '{first},{last}p;{last}q'"


def _tried(one: Document) -> str:
    why = f'"{one["why"]}"' if one["why"] else "(no -m)"
    return f"run {one['number']} {why} {one['became']}"


def _since(said: Document) -> str:
    good = said["last_good"]
    if good is None:
        return "What changed" if said["number"] > 1 else ""
    steps = f", {good['step']} steps" if good["step"] is not None else ""
    name = f"run {good['number']}, the last good one ({good['ended_at_text']}{steps})"
    if said["changes"]:
        return f"Changed since {name}"
    if said["unknown"]:
        return f"Nothing is known to have changed since {name}"
    return f"Nothing changed since {name}"


def change_lines(changes: Iterable[Document]) -> Iterator[str]:
    """One line for each change, in the order given."""
    for one in changes:
        mark = "! " if one["alarming"] else ""
        kind = "" if one["kind"] == "cache" else f"{one['kind']}: "
        yield f"{mark}{kind}{one['text']}"


def _changes(said: Document) -> Iterator[str]:
    yield from change_lines(said["changes"])
    if said["last_good"] is None:
        later = said["finished_later"]
        since = f" (run {later['number']} did, after it)" if later else ""
        yield f"no run of this job had finished before{since}, so there is nothing to compare with"
        return
    if not said["changes"] and not said["unknown"]:
        yield "same code, same configuration, same environment, same caches"
    yield from (f"not known: {one}" for one in said["unknown"])


def _inline(value: str) -> str:
    """A value that Markdown shows as it is."""
    return f"`{value}`" if set("*_<>[]|\\") & set(value) and "`" not in value else value


def _item(line: str) -> str:
    return line if line[:1].isdigit() else f"- {line}"


def _fenced(body: str) -> list[str]:
    fence = "```"
    while fence in body:
        fence += "`"
    return [f"{fence}text", body, fence]
