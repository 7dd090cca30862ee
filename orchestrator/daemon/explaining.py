"""Gathers the story of an incident and of the runs before it, for core/explain to tell."""

from typing import Any

from orchestrator.core.errors import NoSuchRun
from orchestrator.core.explain import Occurrence, Story, explain, markdown, text
from orchestrator.core.model import Incident, Run, RunState
from orchestrator.daemon import comparing
from orchestrator.daemon.parts import Parts

Message = dict[str, Any]


async def explained(parts: Parts, words: str) -> Message:
    """GET /v1/incidents/INCIDENT/explain: what a colleague would say."""
    try:
        incident = await parts.store.incidents.find(words)
    except NoSuchRun:
        return await _nothing_to_explain(parts, words)
    said = explain(await _story(parts, incident))
    return {**said, "text": text(said), "markdown": markdown(said)}


async def _nothing_to_explain(parts: Parts, words: str) -> Message:
    """A run that is well is no error; NoSuchRun where there is no such run."""
    run = await parts.store.runs.find(words)
    text = f"run {run.number} of {run.job} has no incident"
    return {"run": run.id, "incident": None, "text": text, "markdown": text}


async def _story(parts: Parts, incident: Incident) -> Story:
    run = await parts.store.runs.get(incident.run)
    good = await comparing.last_good(parts, run)
    since = comparing.Comparison()
    if good is not None:
        since = await comparing.compare(parts, good, run)
    view = await parts.store.view(run.id)
    return Story(
        run=run,
        attempts=view.attempts,
        incident=incident,
        earlier=await _earlier(parts, run),
        good=good,
        later=await _finished_later(parts, run),
        changes=comparing.told_once(since.changes, await comparing.around(parts, run)),
        unknown=since.unknown,
        stop_reason=view.stop_reason,
    )


async def _finished_later(parts: Parts, run: Run) -> Run | None:
    """The first run of the job after this one that finished."""
    later = [one for one in await parts.store.runs.list(job=run.job) if one.number > run.number]
    return next((one for one in reversed(later) if one.state is RunState.FINISHED), None)


async def _earlier(parts: Parts, run: Run) -> tuple[Occurrence, ...]:
    """The job's runs before this one, oldest first, each with what it died of."""
    died = {one.run: one for one in reversed(await parts.store.incidents.list())}
    before = [one for one in await parts.store.runs.list(job=run.job) if one.number < run.number]
    return tuple(Occurrence(run=one, incident=died.get(one.id)) for one in reversed(before))
