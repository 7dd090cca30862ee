"""What is different between two runs of a job: code, configuration, environment, compile caches.

Owns which looks are held against each other. The comparing of each kind is deploy/'s and launch/'s.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from orchestrator.core.errors import UsageError
from orchestrator.core.explain import Change, ordered
from orchestrator.core.model import Run, RunState
from orchestrator.daemon.parts import Parts
from orchestrator.daemon.shipping import code_folder
from orchestrator.deploy import code, environment
from orchestrator.launch.configuration import changed_keys
from orchestrator.store.environments import Moment, Surroundings

Message = dict[str, Any]
_AFTER_DEPLOY = ", after the deploy"
LOOKS_WITHIN_S = 15.0
"""The look at a run's end takes a second or so; whoever asks that soon waits for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What changed from one run to a later one."""

    changes: tuple[Change, ...] = ()
    unknown: tuple[str, ...] = ()
    """What could not be looked at, with the reason."""
    diff: str = ""
    """Of the code; unified."""


async def compare(parts: Parts, before: Run, after: Run) -> Comparison:
    """Everything that is known to differ."""
    found = await _code(parts, before, after)
    for run in (before, after):
        await parts.crew.settle(run, LOOKS_WITHIN_S)
    old, new = await _looks(parts, before), await _looks(parts, after)
    first, second = old.get(Moment.LAUNCH), new.get(Moment.LAUNCH)
    if first is None or second is None:
        names = " and ".join(
            f"run {run.number}" for run, look in ((before, first), (after, second)) if look is None
        )
        return _also(found, unknown=(f"environment and configuration: not noted for {names}",))
    found = _also(found, *_configuration(first, second))
    for look in (first, second):
        if _failed(look):
            return _also(found, unknown=(f"environment: {look.fingerprint['error']}",))
    earlier = _with_last_caches(first.fingerprint, old.get(Moment.END))
    differences = (
        *environment.diff(earlier, second.fingerprint),
        *environment.warmed(first.fingerprint, second.fingerprint),
    )
    return _also(found, *(_change(one) for one in differences))


async def since_deploy(parts: Parts, run: Run) -> tuple[Change, ...]:
    """What changed from the deploy of a run's release to its launch: somebody installed things."""
    first = await _at_deploy(parts, run)
    last = (await _looks(parts, run)).get(Moment.LAUNCH)
    if first is None or last is None or _failed(last) or first["at"] >= last.at:
        return ()
    used = last.fingerprint.get("caches") or {}  # of its own with --cold-cache
    caches = {path: size for path, size in (first.get("caches") or {}).items() if path in used}
    found = environment.diff({**first, "caches": caches}, last.fingerprint)
    changes = (_change(one) for one in found if one.part != "variable")
    return tuple(replace(one, text=f"{one.text}{_AFTER_DEPLOY}") for one in changes)


def told_once(changes: tuple[Change, ...], later: tuple[Change, ...]) -> tuple[Change, ...]:
    """Both, but what is known to have changed after the deploy is told as that alone."""
    closer = {one.text.removesuffix(_AFTER_DEPLOY) for one in later}
    return (*(one for one in changes if one.text not in closer), *later)


async def _at_deploy(parts: Parts, run: Run) -> environment.Fingerprint | None:
    if run.release is None:
        return None
    releases = parts.store.releases
    return await releases.environment(run.job, run.target, run.release, run.created_at)


async def meanwhile(parts: Parts, run: Run) -> tuple[Change, ...]:
    """What changed while a run lived: a cache that shrank under it, a package replaced."""
    looks = await _looks(parts, run)
    first, last = looks.get(Moment.LAUNCH), looks.get(Moment.END)
    if first is None or last is None or _failed(first) or _failed(last):
        return ()
    changes = (_change(one) for one in environment.diff(first.fingerprint, last.fingerprint))
    return tuple(replace(one, text=f"{one.text}, while the run lived") for one in changes)


async def around(parts: Parts, run: Run) -> tuple[Change, ...]:
    """What changed around a run from its release's deploy to its own end."""
    return (*await since_deploy(parts, run), *await meanwhile(parts, run))


async def last_good(parts: Parts, run: Run) -> Run | None:
    """The newest run of the job before this one that finished."""
    for other in await parts.store.runs.list(job=run.job):
        if other.number < run.number and other.state is RunState.FINISHED:
            return other
    return None


async def environment_of(parts: Parts, words: str) -> Message:
    """GET /v1/runs/RUN/environment: every look at what it found, from its release's deploy on."""
    run = await parts.store.runs.find(words)
    looks = [look_view(one) for one in await parts.store.environments.of(run.id)]
    first = await _at_deploy(parts, run)
    if first is not None:
        facts = {"attempt": 0, "moment": "deploy", "at": first["at"], "configuration": {}}
        looks.insert(0, {**facts, "fingerprint": dict(first)})
    return {"run": run.id, "looks": looks}


def look_view(look: Surroundings) -> Message:
    """A look as it travels."""
    return {
        "attempt": look.attempt,
        "moment": look.moment.value,
        "at": look.at,
        "fingerprint": dict(look.fingerprint),
        "configuration": dict(look.job),
    }


async def diff(parts: Parts, words: str, query: Mapping[str, str]) -> Message:
    """GET /v1/runs/RUN/diff[?with=RUN]: RUN against an earlier run, or the last good one."""
    run = await parts.store.runs.find(words)
    other = await _other(parts, run, query.get("with") or None)
    before, after = sorted((run, other), key=lambda one: one.created_at)
    found = await compare(parts, before, after)
    found = replace(found, changes=told_once(found.changes, await since_deploy(parts, after)))
    return {
        "schema": 1,
        "before": _named(before),
        "after": _named(after),
        "changes": [one.to_json() for one in ordered(found.changes)],
        "unknown": list(found.unknown),
        "diff": found.diff,
    }


async def _other(parts: Parts, run: Run, words: str | None) -> Run:
    if words is not None:
        return await parts.store.runs.find(words)
    good = await last_good(parts, run)
    if good is None:
        raise UsageError(
            f"No run of {run.job} before run {run.number} finished.",
            remedy="Name the run to compare it with: `orch diff RUN RUN`.",
        )
    return good


def _named(run: Run) -> Message:
    return {
        "run": run.id,
        "number": run.number,
        "job": run.job,
        "state": run.state.value,
        "why": run.why,
        "release": run.release,
        "started_at": run.started_at,
    }


async def _code(parts: Parts, before: Run, after: Run) -> Comparison:
    if before.release == after.release:
        return Comparison()
    if before.release is None or after.release is None:
        return Comparison(unknown=("code: one of the two ran without a release",))
    folder = code_folder(parts)
    found = await asyncio.to_thread(code.compare, folder, before.release, after.release)
    if found is None:
        text = f"release {before.release[:8]} -> {after.release[:8]}"
        return Comparison(
            changes=(Change(kind="code", name="release", text=text),),
            unknown=("which files changed: the code of one release is not kept any more",),
        )
    changes = [Change(kind="code", name=one.path, text=str(one)) for one in found.files]
    if not changes:
        # The same files, set up in another way: requirements, Python or shared folders.
        changes = [Change(kind="code", name="release", text="the release's setup changed")]
    return Comparison(changes=tuple(changes), diff=found.diff)


def _configuration(before: Surroundings, after: Surroundings) -> list[Change]:
    return [
        Change(kind="configuration", name=key, text=_arrow(key, old, new))
        for key, old, new in changed_keys(before.job, after.job)
    ]


def _arrow(key: str, old: str | None, new: str | None) -> str:
    if old is None:
        return f"{key} is new: {new or 'empty'}"
    if new is None:
        return f"{key} is gone, it was {old or 'empty'}"
    return f"{key} {old or 'empty'} -> {new or 'empty'}"


def _with_last_caches(
    fingerprint: Mapping[str, Any], last: Surroundings | None
) -> Mapping[str, Any]:
    """A run compiles: what it left behind is what the next one could have used."""
    if last is None or not last.fingerprint.get("caches"):
        return fingerprint
    return {**fingerprint, "caches": last.fingerprint["caches"]}


def _change(one: environment.Difference) -> Change:
    kind = "cache" if one.part == "cache" else "environment"
    return Change(kind=kind, name=one.name, text=str(one), alarming=one.alarming)


def _failed(look: Surroundings) -> bool:
    """Whether the target could not be asked."""
    return set(look.fingerprint) == {"error"}


async def _looks(parts: Parts, run: Run) -> dict[Moment, Surroundings]:
    """The newest attempt's."""
    return {look.moment: look for look in await parts.store.environments.of(run.id)}


def _also(found: Comparison, *changes: Change, unknown: tuple[str, ...] = ()) -> Comparison:
    return replace(found, changes=(*found.changes, *changes), unknown=(*found.unknown, *unknown))
