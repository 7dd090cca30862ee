"""Everything that must be true for a run, checked end to end, each with its remedy."""

import asyncio
import shutil
from typing import Any

from orchestrator.core.errors import Check
from orchestrator.daemon.doctor_packages import package_checks
from orchestrator.daemon.doctor_targets import ssh_checks, target_checks
from orchestrator.daemon.environment import wanted_names
from orchestrator.daemon.machine_checks import machine_checks
from orchestrator.daemon.parts import Parts
from orchestrator.daemon.rebuilding import KEY as REBUILDING
from orchestrator.sinks.webhook import fault_of

FREE_BYTES = 1024**3


async def doctor(parts: Parts) -> dict[str, Any]:
    """GET /v1/doctor."""
    await parts.environment.learn(wanted_names(parts.inventory))
    checks = [
        _inventory(parts),
        _disk(parts),
        *_store(parts),
        *await _rebuilt(parts),
        *_file_of_values(parts),
        *_secrets(parts),
        *await _sinks(parts),
    ]
    targets = sorted(parts.inventory.targets.values(), key=lambda target: target.name)
    looked = await asyncio.gather(
        package_checks(parts),
        ssh_checks(parts),
        *(target_checks(parts, target) for target in targets),
    )
    checks += [check for found in looked for check in found]
    checks += machine_checks(parts)
    return {"checks": [check._asdict() for check in checks]}


def _inventory(parts: Parts) -> Check:
    if parts.file.error is None:
        return Check(name="inventory", ok=True, text=f"{parts.location.inventory} is good")
    return Check(
        name="inventory",
        ok=False,
        text=f"the newest edit is not used: {parts.file.error}",
        remedy="Correct these lines; the last good inventory serves until then.",
    )


def _disk(parts: Parts) -> Check:
    free = shutil.disk_usage(parts.location.state_folder).free
    return Check(
        name="state folder",
        ok=free >= FREE_BYTES,
        text=f"{parts.location.state_folder} has {free / 1024**3:.1f} GiB free",
        remedy=None if free >= FREE_BYTES else "Free some space, or `orch prune`.",
    )


def _store(parts: Parts) -> list[Check]:
    """Where several daemons share a database: which one it is, and who drives each host."""
    if not parts.leasing.shared:
        return []
    checks = [Check(name="store", ok=True, text=f"{parts.store.name}, shared")]
    for lease in parts.leasing.all:
        who = "this daemon" if parts.leasing.drives(lease.host) else lease.driver["machine"]
        ok = lease.left_s > 0
        checks.append(
            Check(
                name=f"lease {lease.host}",
                ok=ok,
                text=f"{who}, pid {lease.driver['pid']}, token {lease.token}"
                + ("" if ok else ", which does not renew it"),
                remedy=None if ok else "Start a daemon whose inventory names that host.",
                critical=False,
            )
        )
    return checks


async def _rebuilt(parts: Parts) -> list[Check]:
    """Where a database was lost: where it is now, and whether its runs are back."""
    lost = await parts.store.values.get(REBUILDING)
    if lost is None:
        return []
    done = "its runs are back"
    far = parts.back.words or parts.back.refusals or parts.back.how_far
    asked = done if lost["done"] else f"targets are asked for its runs ({far})"
    return [
        Check(
            name="database",
            ok=bool(lost["done"]),
            text=f"{_how(lost['aside'])}; {asked}",
            remedy=None if lost["done"] else "See that every target can be reached and read.",
            critical=False,
        )
    ]


def _how(aside: str | None) -> str:
    return f"it was damaged and is kept as {aside}" if aside else "it had lost runs"


def _file_of_values(parts: Parts) -> list[Check]:
    """What the file of values has that is not taken."""
    remedy = "Mend that, and it counts at once."
    return [
        Check(name="values", ok=False, text=fault, remedy=remedy, critical=False)
        for fault in parts.environment.file_faults()
    ]


def _secrets(parts: Parts) -> list[Check]:
    checks = []
    for job in parts.inventory.jobs.values():
        for name in job.secrets:
            known = parts.environment.lookup(name) is not None
            checks.append(
                Check(
                    name=f"secret {name}",
                    ok=known,
                    text=f"{job.name} needs {name}: {'known' if known else 'no value found'}",
                    remedy=None
                    if known
                    else f"Set it where you call orch, or in {parts.environment.file}.",
                )
            )
    return checks


async def _sinks(parts: Parts) -> list[Check]:
    """Each sink's state, and what is wrong with its values before an alert fails by it."""
    lookup, checks = parts.environment.lookup, []
    specs = {spec.name: spec for spec in parts.inventory.alerts.sinks if spec.type == "webhook"}
    for sink in await parts.outbox.status():
        spec = specs.get(sink.name)
        wrong = fault_of(spec, lookup) if spec is not None and not sink.missing else None
        why, remedy = wrong or (sink.error, None)
        checks.append(
            Check(
                name=f"sink {sink.name}",
                ok=sink.state == "ready" and wrong is None,
                text=f"{sink.type}: {sink.state}" + (f", {why}" if why else ""),
                remedy=f"Set {' and '.join(sink.missing)}." if sink.missing else remedy,
                critical=False,
            )
        )
    return checks
