"""Asks a target everything that must be true before a launch, in one call.

Owns which checks a job's policy makes critical, and the packages' versions. The looks themselves
are the probe's (probe/preflight.py).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from orchestrator.core.errors import Check, PreflightRefused
from orchestrator.core.model import Job, Release, Run, RunState
from orchestrator.launch import held_gpus
from orchestrator.launch.session import ACKNOWLEDGED_WITHIN_S, Caller, path_first
from orchestrator.probe.held import held_by

LEAST_FREE_BYTES = 1024**3
_WITHIN_S = 90.0
_CACHE_VARIABLES = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "CUDA_CACHE_PATH")


@dataclass(frozen=True, slots=True, kw_only=True)
class LastGood:
    """The newest run of a job that finished, and what it ran with."""

    number: int
    packages: Mapping[str, str]
    """Versions by lower-case name."""


async def preflight(
    caller: Caller,
    job: Job,
    run: Run,
    release: Release | None,
    *,
    now: float,
    good: LastGood | None = None,
    live: tuple[str, ...] = (),
    cold_start_s: float | None = None,
    alerted: Sequence[Mapping[str, Any]] = (),
    on_host: Caller | None = None,
) -> tuple[Check, ...]:
    """All checks, failed and passed; `now` is the daemon's time, unix seconds.

    The processes of `live` runs are not what earlier runs left, and are never ended here.
    Packages of the job's own list that are not what they were in `good` are warned of.
    `cold_start_s`: how long a start with empty caches took last, to be said of the next one.
    `alerted`: name, host and port of those whom the run's relay would alert itself.
    `on_host`: a link to the container's host, which is asked who holds a GPU that is not idle.
    Changes nothing on the target, but that `stale_processes: stop` ends what it names.
    """
    answer = await caller.call(
        "preflight",
        timeout_s=_WITHIN_S,
        checks={**_wanted(job, run, release, now, live), **_reach(alerted)},
    )
    checks = tuple(_with_cost(Check(**item), cold_start_s) for item in answer["checks"])
    held = await held_gpus.named(on_host, answer.get("held") or ())
    checks = tuple(_with_holders(check, held) for check in checks)
    packages = package_checks(job.preflight.packages, answer["versions"])
    return (*checks, *packages, *_drifted(good, answer["versions"]))


def _reach(alerted: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    within_s = ACKNOWLEDGED_WITHIN_S
    return {"wrapper_alert": {"to": list(alerted), "within_s": within_s}} if alerted else {}


def _with_cost(check: Check, cold_start_s: float | None) -> Check:
    if check.name != "cold_cache" or cold_start_s is None:
        return check
    minutes, seconds = divmod(round(cold_start_s), 60)
    took = f"{minutes} min {seconds} s" if minutes else f"{seconds} s"
    return check._replace(text=f"{check.text}; last time it took {took}")


def _with_holders(check: Check, held: Sequence[Mapping[str, Any]]) -> Check:
    if check.name != "gpus" or not held:
        return check
    return check._replace(text="; ".join(held_by(dict(gpu)) for gpu in held))


def in_backoff(runs: Iterable[Run]) -> Iterator[Check]:
    """A failed check for each run of the job that would begin again beside the new one later."""
    for run in runs:
        if run.state is RunState.BACKOFF:
            yield Check(
                name="backoff",
                ok=False,
                text=f"{run.id} waits for its time to begin attempt {run.attempt + 1}",
                remedy=f"`orch run --replace` stops it first; so does `orch stop {run.id}`.",
            )


def require(checks: tuple[Check, ...]) -> None:
    """PreflightRefused, with all checks, where a critical one failed."""
    if _failed(checks):
        raise PreflightRefused("preflight refused, nothing was launched", checks=checks)


def refusal(checks: tuple[Check, ...]) -> str:
    """What failed and its remedies, as sentences."""
    said = (f"{check.text}. {check.remedy or ''}".rstrip() for check in _failed(checks))
    return f"Preflight refused the launch: {' '.join(said)}"


def _failed(checks: tuple[Check, ...]) -> list[Check]:
    return [check for check in checks if not check.ok and check.critical]


def _wanted(
    job: Job, run: Run, release: Release | None, now: float, live: tuple[str, ...]
) -> dict[str, Any]:
    policy = job.preflight
    env = {**job.env, **run.env}
    caches = [env[name] for name in _CACHE_VARIABLES if env.get(name)]
    rendezvous = env.get("MASTER_PORT", "")
    ports = {*policy.ports, *([int(rendezvous)] if rendezvous.isdecimal() else [])}
    return {
        "tmux": {},
        "logind": {},
        "session": {
            "name": run.session,
            "socket": job.target.tmux_socket,
            "uid": run.uid,
            "workdir": job.workdir,
            "live": list(live),
        },
        "leftovers": {
            "job": job.name,
            "workdir": job.workdir,
            "uid": run.uid,
            "policy": policy.stale_processes,
            "live": list(live),
        },
        "gpus": {"idle": policy.gpus_idle},
        "workdir": {"path": job.workdir},
        "disk": {
            "path": job.workdir,
            "min_free_bytes": policy.min_free_disk_bytes or LEAST_FREE_BYTES,
        },
        "shm": {},
        "limits": {},
        "clock": {"now": now},
        "ports": {"ports": sorted(ports)},
        "data": {"paths": list(policy.data_paths)},
        "driver": {"library_path": env.get("LD_LIBRARY_PATH"), "needed": policy.gpus_idle},
        "caches": {
            "paths": caches,
            "env": env,
            "compiles": bool(caches) or "torch" in policy.packages,
        },
        "python": {
            "python": job.target.python or "python3",
            "path_first": path_first(job, release),
            "env": env,
            "packages": sorted(policy.packages),
        },
    }


def package_checks(
    wanted: Mapping[str, str], versions: Mapping[str, str | None]
) -> tuple[Check, ...]:
    """One check for each constraint; none where the interpreter itself could not be asked."""
    return tuple(
        _package(name, wanted[name], versions[name]) for name in wanted if name in versions
    )


def _drifted(good: LastGood | None, versions: Mapping[str, str | None]) -> tuple[Check, ...]:
    """A warning for each package of the list with another version than in the last good run."""
    if good is None:
        return ()
    return tuple(
        Check(
            name="drift",
            ok=False,
            critical=False,
            text=f"{name} is {found or 'gone'}; run {good.number}, the last that finished, had "
            f"{good.packages.get(name.lower()) or 'none'}",
            remedy=f"If the run fails, go back to what run {good.number} had.",
        )
        for name, found in sorted(versions.items())
        if good.packages.get(name.lower()) != found
    )


def _package(name: str, wanted: str, found: str | None) -> Check:
    remedy = f"Install {name}{wanted} in the job's environment, or change `preflight.packages`."
    if found is None:
        return Check(
            name="packages", ok=False, text=f"{name} is not installed ({wanted})", remedy=remedy
        )
    try:
        ok = Version(found) in SpecifierSet(wanted, prereleases=True)
    except (InvalidVersion, InvalidSpecifier) as exc:
        return Check(name="packages", ok=False, text=f"{name} {found}: {exc}", remedy=remedy)
    text = f"{name} is {found}" if ok else f"{name} is {found}, not {wanted}"
    return Check(name="packages", ok=ok, text=text, remedy=None if ok else remedy)
