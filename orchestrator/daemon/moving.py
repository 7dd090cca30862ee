"""A host goes from the daemon that drives it to the one that was asked to launch or deploy there.

What is shipped and launched is the inventory, the tree and the secrets of whoever asks: so the
asked daemon drives the host for it, and from then on. Owns when that is refused.
"""

import json
import logging
from collections.abc import AsyncGenerator, Iterable, Mapping
from typing import Any

from orchestrator.api.asking import asker
from orchestrator.api.forwarding import Asked
from orchestrator.core.errors import DaemonError, NotDriven, OrchError
from orchestrator.core.model import Target
from orchestrator.daemon.adopted import is_removed, jobs_of
from orchestrator.daemon.parts import Parts

Message = dict[str, Any]
HAD_WITHIN_S = 30.0
LOOK_S = 0.5
_WAIT = "Wait for it, and ask again."

logger = logging.getLogger(__name__)


async def drive(parts: Parts, targets: Iterable[Target]) -> AsyncGenerator[Message, None]:
    """Have the hosts of these targets driven here, with a warning for each that was not before.

    NotDriven, with the daemon to ask instead, where that cannot be.
    """
    for target in targets:
        key = parts.leasing.key(target.host)
        if parts.leasing.drives(key):
            continue
        before = parts.leasing.of(key)
        await _require_known(parts, key)
        await _have(parts, key)
        who = f"pid {before.driver['pid']} on {before.driver['machine']}" if before else "nobody"
        yield {"kind": "warning", "text": f"{key} is driven by this daemon now; before, {who} did"}


async def driven(parts: Parts, targets: Iterable[Target]) -> None:
    """As `drive`, where nobody is there to be told."""
    async for message in drive(parts, targets):
        logger.warning("host.moved", extra={"text": message["text"]})


async def _require_known(parts: Parts, key: str) -> None:
    """A run whose job is not known here could neither be told of rightly nor be restarted."""
    live = [run for run in await parts.store.runs.list(live=True) if run.host == key]
    jobs = await jobs_of(parts.store, live, parts.inventory)
    for run in live:
        job = jobs[run.id]
        if job is None or is_removed(job):
            there = parts.leasing.elsewhere(key)
            raise NotDriven(
                f"{there.message} {run.id} lives there, whose job this inventory does not know.",
                target=key,
                remedy=f"{there.remedy} Or add the job {run.job} to {parts.location.inventory}.",
            )


async def _have(parts: Parts, key: str) -> None:
    """Ask for the host until it is ours; a daemon that is dead or hangs is succeeded meanwhile."""
    deadline = parts.clock.monotonic() + HAD_WITHIN_S
    while not parts.leasing.drives(key):
        await parts.leasing.turn()
        lease = parts.leasing.of(key)
        if parts.leasing.drives(key):
            return
        if parts.clock.monotonic() > deadline:
            raise parts.leasing.elsewhere(key)
        if lease is None or lease.left_s <= 0 or not await _ask(parts, key):
            await parts.clock.sleep(LOOK_S)


async def _ask(parts: Parts, key: str) -> bool:
    """Whether it was given up; ApiError where it is refused."""
    body = json.dumps({"to": parts.leasing.own}).encode()
    asked = Asked("POST", f"/v1/hosts/{key}/give-up", body, asker.get())
    try:
        await parts.passing.document(key, asked)
    except DaemonError:
        return False  # it died over this: the lease says whose the host is
    return True


async def give_up(parts: Parts, key: str, body: Mapping[str, Any]) -> Message:
    """POST /v1/hosts/HOST/give-up: let another daemon of the fleet drive it from now on."""
    inventory, here = parts.inventory, parts.leasing.here(key)
    for name in parts.busy & inventory.jobs.keys():
        if any(parts.leasing.key(one.host) == key for one in inventory.jobs[name].targets):
            raise OrchError(
                f"A deploy or launch of {name} is under way there. {here}", remedy=_WAIT
            )
    if stopping := parts.crew.stopping.on(key):
        raise OrchError(f"{', '.join(stopping)} is being stopped there. {here}", remedy=_WAIT)
    await parts.leasing.give(key, str(body.get("to") or ""))
    return {}
