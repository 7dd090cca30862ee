"""`orch repeat`, `compare` and `bisect`: how often a job crashes, and since which release.

Owns the order of trials. A client that leaves ends the trials, not the run that is under way. The
statistics are core/decide/trials.py's.
"""

from collections import defaultdict
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing
from dataclasses import asdict, dataclass, replace
from typing import Any

from orchestrator.core.decide.trials import CrashRate, crash_rate, fisher, judged
from orchestrator.core.errors import OrchError, UsageError
from orchestrator.core.model import Job, Run, RunState
from orchestrator.daemon import launching, moving, shipping, waiting
from orchestrator.daemon.launching import RunRequest
from orchestrator.daemon.nodes import rank_of
from orchestrator.daemon.parts import Parts
from orchestrator.deploy import release as releases

Message = dict[str, Any]
Stream = AsyncGenerator[Message, None]
MAX_TRIALS = 1000
CRASHED = frozenset({RunState.FAILED, RunState.LOST})
COUNTED = CRASHED | {RunState.FINISHED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How many trials, and when to end before that."""

    count: int
    until_crash: bool

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> "Plan":
        """From a request's body; UsageError where it makes no sense."""
        count = body.get("count")
        if not isinstance(count, int) or not 1 <= count <= MAX_TRIALS:
            raise UsageError(f"-n {count}: give a number of trials from 1 to {MAX_TRIALS}.")
        return cls(count=count, until_crash=bool(body.get("until_crash")))


async def repeat(parts: Parts, body: Mapping[str, Any]) -> Stream:
    """POST /v1/repeat: run's stream for each trial, `trial` after each, and `rate` at the end."""
    request, plan = RunRequest.of(body), Plan.of(body)
    trials: list[Run] = []
    async with aclosing(_trials(parts, request, plan, trials)) as messages:
        async for message in messages:
            yield message
    yield {"kind": "rate", **await _rate(parts, trials)}


async def _trials(parts: Parts, request: RunRequest, plan: Plan, trials: list[Run]) -> Stream:
    """The trials one after the other; those that count are added to `trials`."""
    for number in range(1, plan.count + 1):
        why = f"{request.why} (trial {number} of {plan.count})".strip()
        # What the first one deployed is what all of them try.
        deploy = request.deploy and number == 1
        run_id = ""
        trial = launching.run(parts, replace(request, why=why, deploy=deploy))
        async with aclosing(trial) as messages:
            async for message in messages:
                yield message
                if message["kind"] == "stored":
                    run_id = message["run"]["id"]
        await waiting.wait(parts, run_id, {"until": "ended"})
        run = await parts.store.runs.get(run_id)
        crashed = run.state in CRASHED
        yield {
            "kind": "trial",
            "number": number,
            "count": plan.count,
            "crashed": crashed,
            "run": await parts.crew.display.view(run_id),
        }
        if run.state not in COUNTED:
            return  # a person stopped it, and with it the trials
        trials.append(run)
        if crashed and plan.until_crash:
            return


async def compare(parts: Parts, query: Mapping[str, str]) -> Message:
    """GET /v1/compare: crash rates of a job's runs with two releases, and Fisher's test."""
    job = shipping.find_job(parts.inventory, query.get("job") or None)
    sides = []
    for words in (query.get("a") or "", query.get("b") or ""):
        digest = await _release_of(parts, job, words)
        every = await parts.store.runs.list(job=job.name)
        runs = [run for run in every if run.release == digest and not rank_of(run.env)]
        sides.append({"release": digest, **await _rate(parts, runs)})
    first, second = (crash_rate(one["crashes"], one["trials"]) for one in sides)
    return {
        "schema": 1,
        "job": job.name,
        "a": sides[0],
        "b": sides[1],
        "p": fisher(first, second),
        "text": judged(first, second),
    }


async def bisect(parts: Parts, body: Mapping[str, Any]) -> Stream:
    """POST /v1/bisect: halve the releases between a good and a bad one, trials on each."""
    job = shipping.find_job(parts.file.checked(), body.get("job"))
    plan = replace(Plan.of(body), until_crash=True)
    good = await _release_of(parts, job, str(body.get("good") or ""))
    bad = await _release_of(parts, job, str(body.get("bad") or ""))
    async for message in moving.drive(parts, [job.target]):
        yield message
    suspects = await _between(parts, job, good, bad)
    while len(suspects) > 1:
        middle = (len(suspects) - 1) // 2
        yield {"kind": "suspects", "releases": suspects, "next": suspects[middle]}
        trials: list[Run] = []
        why = f"bisect {good[:8]}..{bad[:8]}: release {suspects[middle][:8]}"
        request = replace(RunRequest.of(body), job=job.name, why=why, release=suspects[middle])
        async with aclosing(_trials(parts, request, plan, trials)) as messages:
            async for message in messages:
                yield message
        rate = await _rate(parts, trials)
        if not rate["crashes"] and rate["trials"] < plan.count:
            raise OrchError("A trial was stopped, and so nothing is known of its release.")
        yield {"kind": "judged", "release": suspects[middle], "bad": rate["crashes"] > 0, **rate}
        suspects = suspects[: middle + 1] if rate["crashes"] else suspects[middle + 1 :]
    yield {"kind": "found", "release": suspects[0], "good": good, "bad": bad}


async def _between(parts: Parts, job: Job, good: str, bad: str) -> list[str]:
    """The releases after the good one up to the bad one, oldest first, that are still there."""
    entries = reversed(await parts.store.releases.list(job.name, target=job.target.name))
    order = list(dict.fromkeys(entry.release.digest for entry in entries))
    if order.index(good) >= order.index(bad):
        raise UsageError(
            f"Release {good[:8]} was deployed after {bad[:8]}: bisect looks from the good one on."
        )
    listed = await releases.releases(parts.fleet.link(job.target), job)
    there = {one["digest"] for one in listed["releases"]}
    suspects = order[order.index(good) + 1 : order.index(bad) + 1]
    return [digest for digest in suspects if digest in there or digest == bad]


async def _release_of(parts: Parts, job: Job, words: str) -> str:
    """The release that a digest, its beginning, or a RUN means."""
    entries = await parts.store.releases.list(job.name)
    known = {one.release.digest for one in entries if one.release.digest.startswith(words)}
    if words and len(known) == 1:
        return known.pop()
    if len(known) > 1 and words:
        raise UsageError(f"{words} is the beginning of {len(known)} releases: say more of it.")
    own = f"{job.name}-{words}" if words.isdigit() else words  # other jobs have a run 1 as well
    run = await parts.store.runs.find(own)
    if run.job != job.name or run.release is None:
        raise UsageError(
            f"{words} is {run.id}, and no run of {job.name} with a release.",
            remedy="Name a release (`orch show RUN` has it) or a run of that job.",
        )
    return run.release


async def _rate(parts: Parts, runs: Iterable[Run]) -> Message:
    """The crash rate of the runs that count, and what they died of."""
    counted = [run for run in runs if run.state in COUNTED]
    crashed = [run for run in counted if run.state in CRASHED]
    rate: CrashRate = crash_rate(len(crashed), len(counted))
    return {**asdict(rate), "text": str(rate), "by_fingerprint": await _causes(parts, crashed)}


async def _causes(parts: Parts, crashed: Iterable[Run]) -> list[Message]:
    found: dict[str, Message] = {}
    runs: defaultdict[str, list[str]] = defaultdict(list)
    for run in crashed:
        incidents = await parts.store.incidents.list(run=run.id, limit=1)
        for one in incidents:
            runs[one.fingerprint].append(run.id)
            found[one.fingerprint] = {
                "fingerprint": one.fingerprint,
                "signature": one.signature,
                "title": one.title,
            }
    causes = [{**one, "count": len(runs[key]), "runs": runs[key]} for key, one in found.items()]
    return sorted(causes, key=lambda one: -len(one["runs"]))
