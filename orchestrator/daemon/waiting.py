"""The moment at which something holds of a run, or of any: answered when it happens, never polled.

Owns `wait` of the API. It changes nothing; what an expression says is core.parse.until's.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Any, NamedTuple

from orchestrator.api import messages
from orchestrator.core.errors import UsageError
from orchestrator.core.model import ENDS, IncidentState, Run
from orchestrator.core.parse.until import Until, parse_until
from orchestrator.daemon import queries
from orchestrator.daemon.following import follow
from orchestrator.daemon.parts import Parts

Message = dict[str, Any]
Holds = Callable[[messages.RunView], str | None]


class _Told(NamedTuple):
    """Whether it came, in words why, and the incident where it is one."""

    reached: bool
    reason: str
    incident: Mapping[str, Any] | None = None


async def wait(parts: Parts, words: str, query: Mapping[str, str]) -> Message:
    """GET /v1/runs/RUN/wait: answers the moment the expression holds, or after the timeout."""
    run = await parts.store.runs.find(words)
    until = parse_until(query.get("until") or "ended")
    told = await _within(query, _condition(parts, run, until))
    return {
        "reached": told.reached,
        "run": await parts.crew.display.view(run.id),
        "reason": told.reason,
        "incident": told.incident,
    }


async def wait_for_any(parts: Parts, query: Mapping[str, str]) -> Message:
    """GET /v1/wait: likewise, of whatever run it is; only an incident can be waited for so."""
    if parse_until(query.get("until") or "incident").kind != "incident":
        raise UsageError(
            f"--until {query['until']} is about one run.",
            remedy="Name the run; of any run only `incident` can be waited for.",
        )
    told = await _within(query, _until_incident(parts, None))
    of_it = None if told.incident is None else await queries.run(parts, told.incident["run"])
    return {"reached": told.reached, "run": of_it, "reason": told.reason, "incident": told.incident}


async def _within(query: Mapping[str, str], coming: Awaitable[_Told]) -> _Told:
    timeout_s = queries.number(query, "timeout")
    try:
        async with asyncio.timeout(timeout_s):
            return await coming
    except TimeoutError:
        return _Told(reached=False, reason=f"not within {timeout_s} s")


def _condition(parts: Parts, run: Run, until: Until) -> Awaitable[_Told]:
    match until.kind:
        case "incident":
            return _until_incident(parts, run.id)
        case "log":
            return _until_logged(parts, run, until)
        case _:
            return _until_view(parts, run, _holds(until))


def _holds(until: Until) -> Holds:
    def step(view: messages.RunView) -> str | None:
        return f"step {view['step']}" if (view["step"] or 0) >= until.limit else None

    def metric(view: messages.RunView) -> str | None:
        known = {**view["metrics"], "step": view["step"], "loss": view["loss"]}
        number = known.get(until.word)
        if isinstance(number, bool) or not isinstance(number, int | float):
            return None
        holds = number < until.limit if until.sign == "<" else number > until.limit
        return f"{until.word} is {number:g}" if holds else None

    tests: dict[str, Holds] = {
        "ended": lambda view: view["state"] if view["state"] in ENDS else None,
        "crashed": lambda view: "crashed" if view["incident"] else None,
        "phase": lambda view: f"phase {view['phase']}" if view["phase"] == until.word else None,
        "step": step,
        "metric": metric,
    }
    return tests[until.kind]


async def _until_view(parts: Parts, run: Run, holds: Holds) -> _Told:
    while True:
        rung = asyncio.ensure_future(parts.crew.display.bell(run.id).wait())
        try:
            view = await parts.crew.display.view(run.id)
            reason = holds(view)
            if reason is not None:
                return _Told(reached=True, reason=reason)
            if view["state"] in ENDS:
                return _Told(reached=False, reason=f"the run is {view['state']}")
            await rung
        finally:
            rung.cancel()


async def _until_incident(parts: Parts, run: str | None) -> _Told:
    """An incident that nobody has acknowledged: one that is open already, or the next."""
    async with aclosing(parts.board.changes(parts.board.cursor)) as changes:
        found = await parts.store.incidents.list(run=run, unresolved=True)
        stored = {one.id: dict(await queries.incident(parts, one.id)) for one in found}
        while True:
            ended = run is not None and (await parts.crew.display.view(run))["state"]
            known = stored | {one["id"]: one for one in parts.board.views("incidents")}
            for incident in known.values():
                if incident["state"] == IncidentState.OPEN and run in {None, incident["run"]}:
                    reason = f"{incident['id']}: {incident['title']}"
                    return _Told(reached=True, reason=reason, incident=incident)
            if ended in ENDS:
                return _Told(reached=False, reason=f"the run is {ended}")
            await anext(changes)


async def _until_logged(parts: Parts, run: Run, until: Until) -> _Told:
    rest = ""
    async for message in follow(parts, run.id, {}):
        if message["kind"] == "log":
            *lines, rest = (rest + message["text"]).split("\n")
            for line in lines:
                if until.pattern is not None and until.pattern.search(line):
                    return _Told(reached=True, reason=line.strip())
    return _Told(reached=False, reason="the run has ended")
