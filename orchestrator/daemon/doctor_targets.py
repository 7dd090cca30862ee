"""What doctor looks at on the far side: settings of ssh, each target, and what its jobs need."""

from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.core.errors import Check, TargetError
from orchestrator.core.model import Host, Job, Target
from orchestrator.daemon.parts import Parts
from orchestrator.launch.preflight import LEAST_FREE_BYTES, package_checks
from orchestrator.launch.session import path_first
from orchestrator.link.link import Link
from orchestrator.link.shell_ops import LOST, REMEDY
from orchestrator.link.shell_probe import SHELL
from orchestrator.probe.gpus import remedy
from orchestrator.transport.openssh import resolve

LOOK_WITHIN_S = 60.0


async def ssh_checks(parts: Parts) -> list[Check]:
    """One check for each setting of ~/.ssh/config that orch cannot obey; none where all is well."""
    hosts = {target.host.name: target.host for target in parts.inventory.targets.values()}
    checks: list[Check] = []
    for host in sorted(hosts.values(), key=lambda host: host.name):
        if host.transport == "ssh":
            checks += await _ssh(host)
    return checks


async def _ssh(host: Host) -> list[Check]:
    try:
        settings = await resolve(host)
    except TargetError as error:
        return [_failed(f"ssh settings of {host.name}", error)]
    hops = {hop.hostname: hop for hop in (*settings.jumps, settings)}
    return [
        Check(
            name=f"ssh settings of {host.name}",
            ok=False,
            text=f"`{setting}` for {hop.hostname} is not obeyed by orch",
            remedy="orch asks for host keys as `ssh` does by default; what it cannot honour "
            "it never weakens. Take the setting out for this host, or know that it counts for ssh "
            "alone.",
            critical=False,
        )
        for hop in hops.values()
        for setting in hop.not_honoured
    ]


async def target_checks(parts: Parts, target: Target) -> list[Check]:
    """The way in, then the target itself, then what each of its jobs needs there."""
    link = parts.fleet.link(target)
    name = target.name
    try:
        there = await link.call("sessions", socket=target.tmux_socket, timeout_s=20.0)
        checks = [_seen(target, link, len(there["sessions"])), *_tools(target, link)]
        checks += await _itself(parts, target, link)
        needy = [
            job.name
            for job in parts.inventory.jobs.values()
            if target in job.targets and job.preflight.gpus_idle
        ]
        checks += await _gpus(target, link, needy)
        for job in parts.inventory.jobs.values():
            if target in job.targets:
                checks += await _job(parts, job, target, link)
    except TargetError as error:
        return [_failed(f"target {name}", error)]
    return checks


def _seen(target: Target, link: Link, num_sessions: int) -> Check:
    hello = link.hello or {}
    how = f"Python {hello.get('python')}" if link.watched != SHELL else "its shell alone"
    sessions = f"{num_sessions} tmux session{'' if num_sessions == 1 else 's'}"
    return Check(
        name=f"target {target.name}",
        ok=True,
        text=f"{hello.get('hostname')} answers by {how}, {sessions}",
    )


def _tools(target: Target, link: Link) -> list[Check]:
    tmux = (link.hello or {}).get("tmux")
    checks = [
        Check(
            name=f"tmux on {target.name}",
            ok=bool(tmux),
            text=f"tmux {tmux}" if tmux else "there is no tmux",
            remedy=None if tmux else "Install it there (apt-get install tmux).",
        )
    ]
    if link.watched == SHELL:
        text = f"no Python 3.10: it is watched by the plain shell; {LOST}"
        checks.append(
            Check(
                name=f"python on {target.name}", ok=False, text=text, remedy=REMEDY, critical=False
            )
        )
    return checks


async def _itself(parts: Parts, target: Target, link: Link) -> list[Check]:
    """Clock, shared memory and limits, whatever runs there."""
    wanted: dict[str, Any] = {"clock": {"now": parts.clock.now()}}
    wanted |= {"shm": {}, "limits": {}, "logind": {}}
    return await _looks(target.name, link, {**wanted, "python": _interpreter(target, {}, ())})


async def _job(parts: Parts, job: Job, target: Target, link: Link) -> list[Check]:
    """The disk under its folder, its compile caches, its interpreter and its packages."""
    release = None
    known = await parts.store.releases.current(job.name, target.name)
    if known is not None:
        release = known.release
    policy = job.preflight
    wanted = {
        "workdir": {"path": job.workdir},
        "disk": {
            "path": job.workdir,
            "min_free_bytes": policy.min_free_disk_bytes or LEAST_FREE_BYTES,
        },
        "python": _interpreter(target, job.env, tuple(sorted(policy.packages)))
        | {"path_first": path_first(job, release)},
    }
    return await _looks(f"{target.name} for {job.name}", link, wanted, policy.packages)


def _interpreter(
    target: Target, env: Mapping[str, str], packages: tuple[str, ...]
) -> dict[str, Any]:
    folder = [target.python_folder] if target.python_folder else []
    return {
        "python": target.python or "python3",
        "path_first": folder,
        "env": dict(env),
        "packages": list(packages),
    }


async def _looks(
    where: str, link: Link, wanted: Mapping[str, Any], packages: Mapping[str, str] | None = None
) -> list[Check]:
    answer = await link.call("preflight", timeout_s=LOOK_WITHIN_S, checks=dict(wanted))
    checks = [Check(**item) for item in answer["checks"]]
    checks += package_checks(packages or {}, answer["versions"])
    said = {"python", "tmux"} if link.watched == SHELL else set()
    return [
        check._replace(name=f"{check.name} on {where}")
        for check in checks
        if check.name not in said
    ]


async def _gpus(target: Target, link: Link, needy: Sequence[str]) -> list[Check]:
    """How many GPUs are seen, by what, with which driver; a complaint of it is a finding.

    Where a job's preflight wants GPUs (`needy`), their lack is one too: its `run` is refused.
    """
    answer = await link.call("gpus", timeout_s=LOOK_WITHIN_S)
    name, samples, error = f"gpus on {target.name}", answer["samples"], answer.get("error")
    if error:
        return [
            Check(
                name=name,
                ok=False,
                text=str(error),
                remedy=remedy(str(error)),
                critical=bool(needy),
            )
        ]
    if not samples and needy:
        return [
            Check(
                name=name,
                ok=False,
                text=f"no GPU is seen, and `gpus_idle` of {', '.join(needy)} wants some: "
                "`orch run` is refused",
                remedy="Give the container its /dev/nvidia* devices, or drop `gpus_idle`.",
            )
        ]
    if not samples:
        return [Check(name=name, ok=True, text="no GPU is seen", critical=False)]
    models = ", ".join(dict.fromkeys(str(one.get("name")) for one in samples))
    text = f"{len(samples)} GPUs ({models}) by {answer['source']}"
    if link.watched != SHELL:
        known = await link.call("environment", timeout_s=LOOK_WITHIN_S, python=target.python)
        text += f", driver {known['driver'] or 'version unknown'}"
        if known["torch"]:
            text += f", torch {known['torch']} for CUDA {known['cuda']}"
    return [Check(name=name, ok=True, text=text)]


def _failed(name: str, error: TargetError) -> Check:
    return Check(name=name, ok=False, text=error.message, remedy=error.remedy)
