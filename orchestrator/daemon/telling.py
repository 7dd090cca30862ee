"""What the daemon tells of itself, of incidents in whole sentences, and of its sinks."""

import asyncio
import os
from collections.abc import Mapping
from typing import Any

from orchestrator.api import messages
from orchestrator.daemon.environment import wanted_by, wanted_names
from orchestrator.daemon.parts import Parts
from orchestrator.daemon.shipping import find_job
from orchestrator.sinks.base import Outcome

Message = dict[str, Any]


async def daemon_view(parts: Parts, version: str) -> messages.DaemonView:
    """The daemon as `orch daemon status` shows it."""
    sinks = [
        messages.SinkView(
            name=sink.name,
            type=sink.type,
            state=sink.state,
            error=sink.error or (f"set {' and '.join(sink.missing)}" if sink.missing else None),
            pending=sink.pending,
        )
        for sink in await parts.outbox.status()
    ]
    inventory = parts.inventory
    # At once: this is asked for again and again, and an inventory may have a hundred jobs.
    digests = await parts.store.releases.digests()
    jobs = [
        {
            "name": job.name,
            "targets": [target.name for target in job.targets],
            "session": job.session or job.name,
            "package": job.package,
            "workdir": job.workdir,
            "release": digests.get((job.name, job.target.name)),
        }
        for job in inventory.jobs.values()
    ]
    needs = parts.needs()
    return messages.DaemonView(
        running=True,
        pid=os.getpid(),
        socket=str(parts.location.socket),
        version=version,
        inventory=str(parts.location.inventory),
        inventory_error=parts.file.error,
        state_folder=str(parts.location.state_folder),
        started_at=parts.started_at,
        outdated=await asyncio.to_thread(parts.code.outdated),
        needs=needs,
        needed_by={name: who for name, who in wanted_by(inventory).items() if name in needs},
        env_file=parts.environment.file,
        wants=wanted_names(inventory),
        environment_faults=list(parts.environment.file_faults()),
        sinks=sinks,
        jobs=jobs,
        store=parts.store.name,
        leases=_leases(parts),
        rebuilding=parts.back.words,
    )


def _leases(parts: Parts) -> list[messages.LeaseView]:
    return [
        messages.LeaseView(
            host=lease.host,
            here=parts.leasing.drives(lease.host),
            machine=lease.driver["machine"],
            pid=lease.driver["pid"],
            inventory=lease.driver["inventory"],
            token=lease.token,
            left_s=round(lease.left_s, 1),
        )
        for lease in parts.leasing.all
    ]


async def top(parts: Parts) -> Message:
    """GET /v1/top: the targets with their GPUs."""
    return {"targets": parts.fleet.heard(parts.board.views("targets"))}


async def releases(parts: Parts, query: Mapping[str, str]) -> Message:
    """GET /v1/releases: what was deployed of a job, newest first."""
    job = find_job(parts.inventory, query.get("job") or None)
    entries = await parts.store.releases.list(job.name)
    return {
        "releases": [
            {
                "job": entry.job,
                "target": entry.target,
                "digest": entry.release.digest,
                "path": entry.release.path,
                "files": entry.release.files,
                "bytes": entry.release.bytes,
                "at": entry.at,
                "kind": entry.kind,
                "provenance": dict(entry.provenance),
                "looked": entry.looked,
            }
            for entry in entries
        ]
    }


async def alert_test(parts: Parts, sink: str | None) -> Message:
    """POST /v1/alert-test: one test alert to a sink, or to all, as the file says now."""
    parts.outbox.follow(parts.rack.sinks(parts.file.checked().alerts.sinks))
    known = [status.name for status in await parts.outbox.status() if status.state != "removed"]
    names = [sink] if sink else known
    results = []
    for name in names:
        result = await parts.outbox.test(name)
        results.append({"sink": name, "ok": result.outcome is Outcome.TAKEN, "text": result.text})
    return {"results": results}
