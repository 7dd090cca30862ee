"""`orch simulate`: a signature's own sample played as a run, so that the whole alarm path is tried.

Owns the job that plays it. What it prints is found by signatures whose titles say that it is a
simulation, so that nobody who is alerted takes it for a failure.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from dataclasses import replace
from typing import Any

from orchestrator.core.decide.decision import Decision
from orchestrator.core.detect.proving import read_rule
from orchestrator.core.detect.samples import SAMPLES
from orchestrator.core.errors import UsageError
from orchestrator.core.model import Delivery, IncidentState, Inventory, Run, RunState, Target
from orchestrator.daemon import moving, queries, waiting
from orchestrator.daemon.parts import Parts
from orchestrator.daemon.shipping import only_one
from orchestrator.daemon.simulated import JOB, SESSION, simulated_job

Message = dict[str, Any]
DELIVERED_WITHIN_S = 30.0
_POLL_S = 0.1


async def simulate(parts: Parts, body: Mapping[str, Any]) -> AsyncGenerator[Message, None]:
    """POST /v1/simulate: stored{run}, ended{run, incident}, delivered{...}, done.

    Once the sinks have had their alert the incident is acknowledged, so that they are told it is
    over.
    """
    inventory = parts.file.checked()
    if JOB in inventory.jobs:
        raise UsageError(f"The inventory has a job {JOB}, so nothing can be simulated.")
    sample = _sample(inventory, str(body.get("signature") or ""))
    target = _target(inventory, body.get("target"))
    with only_one(parts, JOB):
        await moving.driven(parts, [target])
        draft = _draft(parts, target, sample, str(body["signature"]))
        with parts.crew.beginning(draft.uid):
            run = await parts.store.runs.create(draft)
            await parts.crew.begin(run, simulated_job(inventory))
        yield {"kind": "stored", "run": await parts.crew.display.view(run.id)}
        await waiting.wait(parts, run.id, {"until": "ended"})
        incidents = (await queries.incidents(parts, {"run": run.id}))["incidents"]
        view = await parts.crew.display.view(run.id)
        yield {"kind": "ended", "run": view, "incident": incidents[0] if incidents else None}
        if incidents:
            ident = incidents[0]["id"]
            yield {"kind": "delivered", "status": "firing", "sinks": await _sent(parts, ident)}
            await parts.crew.heeding.acknowledge(await parts.store.incidents.find(ident))
            yield {"kind": "delivered", "status": "resolved", "sinks": await _sent(parts, ident)}
            await _played(parts, ident)
    yield {"kind": "done"}


async def _played(parts: Parts, ident: str) -> None:
    """It is over: nobody has to care about its incident."""
    incident, now = await parts.store.incidents.find(ident), parts.clock.now()
    run = await parts.store.runs.get(incident.run)
    over = replace(incident, state=IncidentState.RESOLVED, resolved_at=now, updated_at=now)
    await parts.store.apply(Decision(run=run, incidents=(over,)))
    await parts.crew.display.show(run.id)


def _sample(inventory: Inventory, name: str) -> str:
    """The first positive sample of a signature, the inventory's own ones first."""
    samples = dict(SAMPLES)
    samples |= {rule.signature.id: rule.samples for rule in map(read_rule, inventory.rules)}
    known = sorted(key for key, one in samples.items() if one.positive)
    if name not in known:
        raise UsageError(
            f"No signature {name} has a positive sample to play.",
            remedy=f"There are: {' '.join(known)}.",
        )
    return samples[name].positive[0]


def _target(inventory: Inventory, name: object) -> Target:
    if name is None and inventory.jobs:
        return next(iter(inventory.jobs.values())).target
    if name is None and len(inventory.targets) == 1:
        return next(iter(inventory.targets.values()))
    if name not in inventory.targets:
        known = ", ".join(inventory.targets) or "none"
        raise UsageError(f"Which target? The inventory has: {known}.", remedy="Name one.")
    return inventory.targets[str(name)]


def _draft(parts: Parts, target: Target, sample: str, signature: str) -> Run:
    uid = parts.clock.new_id(6)
    job = next((one for one in parts.inventory.jobs.values() if target in one.targets), None)
    folder = job.workdir if job is not None else "/tmp/orch"  # noqa: S108  on the target
    return Run(
        id="",
        uid=uid,
        job=JOB,
        target=target.name,
        number=0,
        state=RunState.PENDING,
        attempt=1,
        session=SESSION,
        directory=f"{folder}/runs/{{id}}.{uid}",
        why=f"simulation of {signature}",
        args=(sample,),
        host=parts.leasing.key(target.host),
        whereabouts=target,
    )


async def _sent(parts: Parts, incident: str) -> list[Message]:
    """What became of the newest alert at each sink, once all have it, or after a while."""
    deadline = parts.clock.monotonic() + DELIVERED_WITHIN_S
    while True:
        newest: dict[str, Delivery] = {
            one.sink: one for one in await parts.store.deliveries.of_incident(incident)
        }
        unset = {sink.name for sink in await parts.outbox.status() if sink.state != "ready"}
        waiting = [one for one in newest.values() if one.state == "pending"]
        if all(one.sink in unset for one in waiting) or parts.clock.monotonic() > deadline:
            break
        await asyncio.sleep(_POLL_S)
    return [{"sink": one.sink, "state": one.state, "error": one.error} for one in newest.values()]
