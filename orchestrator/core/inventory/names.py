"""What one part of an inventory says of another.

Looks at raw values, so that a fault of shape elsewhere hides none of its own.
"""

import posixpath
from collections.abc import Callable, Iterator
from typing import Any

from orchestrator.core.inventory.document import Location
from orchestrator.core.inventory.failures import DEATHS, GROUPS, LOST, SIGNATURES, WATCHED
from orchestrator.core.inventory.matches import Known
from orchestrator.core.inventory.nearest import nearest
from orchestrator.core.inventory.shape import RUNTIMES, HostShape, JobShape, TargetShape
from orchestrator.core.inventory.sharing import shared_problems

Found = Iterator[tuple[Location, str]]


def name_problems(
    tree: dict[str, Any], folder: str, exists: Callable[[str], bool]
) -> list[tuple[Location, str]]:
    """Location and sentence of every name, runtime, session or folder that does not fit."""
    hosts, targets, jobs = (_mapping(tree, part) for part in ("hosts", "targets", "jobs"))
    found = [problem for name in targets for problem in _target(name, targets[name], hosts)]
    for name, job in jobs.items():
        if isinstance(job, dict):
            found += _job_targets(name, job, targets)
            found += _job_folders(name, job, folder, exists, _any_elsewhere(job, targets, hosts))
            found += _job_wheels(name, job)
            found += _job_name(name, jobs)
            found += _job_session(name, job)
            found += _job_failures(name, job, _own_rules(tree))
    found += shared_problems(jobs, {job: _targets_of(jobs[job], targets) for job in jobs})
    found += _alerts(_mapping(tree, "alerts"))
    found += _matches(_mapping(tree, "alerts"), _known(tree))
    return found


def dangling(tree: dict[str, Any]) -> list[tuple[Location, str]]:
    """Location and sentence of every host and target that is not there: no job has a place."""
    hosts, targets, jobs = (_mapping(tree, part) for part in ("hosts", "targets", "jobs"))
    found = [problem for name in targets for problem in _target(name, targets[name], hosts)]
    for name, job in jobs.items():
        found += _job_targets(name, job, targets) if isinstance(job, dict) else ()
    return found


def _is_elsewhere(target: object, hosts: dict[str, Any]) -> bool:
    """Whether the target surely is not this machine itself; of a misspelt one nothing is sure.

    What is misspelt is told by itself, and nothing that would only follow from it.
    """
    if not isinstance(target, dict) or target.keys() - TargetShape.model_fields:
        return False
    runtime = target.get("runtime", "none")
    if runtime != "none":
        return str(runtime) in RUNTIMES
    name = str(target.get("host"))
    host = {} if name in hosts and hosts[name] is None else hosts.get(name)
    if not isinstance(host, dict) or host.keys() - HostShape.model_fields:
        return False
    return str(host.get("transport", "ssh")) == "ssh"


def _mapping(tree: dict[str, Any], key: str) -> dict[str, Any]:
    value = tree.get(key)
    return value if isinstance(value, dict) else {}


def _any_elsewhere(job: dict[str, Any], targets: dict[str, Any], hosts: dict[str, Any]) -> bool:
    return any(_is_elsewhere(targets[name], hosts) for name in _targets_of(job, targets))


def _targets_of(job: object, targets: dict[str, Any]) -> list[str]:
    """The targets that a job is said to run on, those that are there."""
    if not isinstance(job, dict):
        return []
    names = job["targets"] if isinstance(job.get("targets"), list) else [job.get("target")]
    return [str(name) for name in names if str(name) in targets]


def _target(name: str, target: object, hosts: dict[str, Any]) -> Found:
    if not isinstance(target, dict):
        return
    here: Location = ("targets", name)
    host = target.get("host")
    if host is not None and not isinstance(host, dict | list) and str(host) not in hosts:
        yield (*here, "host"), f"no host is named {host}" + nearest(str(host), hosts)
    runtime, container = target.get("runtime", "none"), target.get("container")
    if runtime == "none" and container is not None:
        yield (
            (*here, "container"),
            "is given, but the runtime is none; say which runtime enters it, such as runtime: pct",
        )
    if runtime != "none" and container is None:
        yield (*here, "container"), f"is required, since the runtime is {runtime}"
    python = target.get("python")
    relative = isinstance(python, str) and "/" in python and not python.startswith(("/", "~/"))
    if relative and _is_elsewhere(target, hosts):
        yield (*here, "python"), f"{python!r} must be absolute or a plain name on another machine"


def _job_targets(name: str, job: dict[str, Any], targets: dict[str, Any]) -> Found:
    here: Location = ("jobs", name)
    one, several = job.get("target"), job.get("targets")
    if one is None and several is None:
        yield (*here, "target"), "is required (or targets, for one run over several)"
    if one is not None and several is not None:
        yield (*here, "targets"), "stands beside target; say one of the two"
    if one is not None and not isinstance(one, dict | list) and str(one) not in targets:
        yield (*here, "target"), f"no target is named {one}" + nearest(str(one), targets)
    for index, target in enumerate(several if isinstance(several, list) else []):
        if not isinstance(target, dict | list) and str(target) not in targets:
            place = (*here, "targets", index)
            yield place, f"no target is named {target}" + nearest(str(target), targets)


def _job_folders(
    name: str, job: dict[str, Any], folder: str, exists: Callable[[str], bool], elsewhere: bool
) -> Found:
    here: Location = ("jobs", name)
    workdir = job.get("workdir")
    if isinstance(workdir, str) and not workdir.startswith("/"):
        if not workdir.startswith("~/"):
            yield (*here, "workdir"), f"{workdir!r} is relative; give the absolute folder"
        elif elsewhere:
            yield (*here, "workdir"), f"{workdir!r} is your home here; give the target's folder"
    for key in ("package", "wheelhouse"):
        path = job.get(key)
        if isinstance(path, str) and not exists(posixpath.join(folder, path)):
            yield (*here, key), f"no folder {path} beside the inventory (in {folder})"


def _job_wheels(name: str, job: dict[str, Any]) -> Found:
    """Wheels that would travel for nothing; a key that is misspelt may have meant `setup`."""
    is_spelt = not job.keys() - JobShape.model_fields
    if is_spelt and job.get("wheelhouse") is not None and job.get("setup") is None:
        why = "is for setup, which is left out: say setup: {requirements: FILE}, or leave out both"
        yield ("jobs", name, "wheelhouse"), why


def _job_name(name: str, jobs: dict[str, Any]) -> Found:
    other, _, number = name.rpartition("-")
    if other in jobs and number.isascii() and number.isdecimal():
        yield ("jobs", name), f"reads like run {number} of job {other}; name it otherwise"


def _job_session(name: str, job: dict[str, Any]) -> Found:
    if job.get("session") is None and "." in name:
        yield ("jobs", name, "session"), f"is required, since tmux forbids the '.' in {name}"


def _own_rules(tree: dict[str, Any]) -> frozenset[str]:
    rules = tree.get("rules")
    found = rules if isinstance(rules, list) else []
    names = (rule.get("class") or rule.get("name") for rule in found if isinstance(rule, dict))
    return frozenset(str(name) for name in names if name)


def _job_failures(name: str, job: dict[str, Any], own: frozenset[str]) -> Found:
    known = SIGNATURES | own
    for part, key, names in (
        ("restart", "on", known | WATCHED | GROUPS | {LOST}),
        ("watch", "stop_on", known | WATCHED | DEATHS),
    ):
        policy = job.get(part)
        said = policy.get(key) if isinstance(policy, dict) else None
        for index, word in enumerate(said if isinstance(said, list) else []):
            if isinstance(word, str) and word not in names:
                yield (
                    ("jobs", name, part, key, index),
                    f"no signature is named {word}" + nearest(word, names),
                )


def _wrapper_alert(here: Location, sink: dict[str, Any]) -> Found:
    if sink.get("type") != "webhook":
        yield (*here, "wrapper_alert"), "is for sinks of type webhook; a run can send nothing else"
    elif not sink.get("secret_env"):
        why = "is required beside wrapper_alert: what comes from a target has to be signed"
        yield (*here, "secret_env"), why


def _alerts(alerts: dict[str, Any]) -> Found:
    sinks = _mapping(alerts, "sinks")
    for name, sink in sinks.items():
        if not isinstance(sink, dict):
            continue
        needed = "command" if sink.get("type") == "command" else "url_env"
        if sink.get("type") in ("webhook", "apprise", "command") and not sink.get(needed):
            place: Location = ("alerts", "sinks", name, needed)
            yield place, f"is required for a sink of type {sink['type']}"
        if sink.get("wrapper_alert") is True:
            yield from _wrapper_alert(("alerts", "sinks", name), sink)
    routes = alerts.get("routes")
    for index, route in enumerate(routes if isinstance(routes, list) else []):
        names = route.get("to") if isinstance(route, dict) else None
        for number, sink in enumerate(names if isinstance(names, list) else []):
            if not isinstance(sink, dict | list) and str(sink) not in sinks:
                place = ("alerts", "routes", index, "to", number)
                yield place, f"no sink is named {sink}" + nearest(str(sink), sinks)


def _known(tree: dict[str, Any]) -> Known:
    targets = _mapping(tree, "targets")
    return Known.of(
        jobs=map(str, _mapping(tree, "jobs")),
        targets={str(name): _labels(target) for name, target in targets.items()},
        hosts=map(str, _mapping(tree, "hosts")),
        rules=_own_rules(tree),
    )


def _labels(target: object) -> dict[str, str]:
    labels = _mapping(target, "labels") if isinstance(target, dict) else {}
    return {str(label): str(value) for label, value in labels.items()}


def _matches(alerts: dict[str, Any], known: Known) -> Found:
    """A typing slip in a match: no alert would ever be taken by it, and nobody would hear of it."""
    routes, silences = alerts.get("routes"), alerts.get("silences")
    said: list[tuple[Location, object]] = [
        (("alerts", "routes", index, "match"), route.get("match"))
        for index, route in enumerate(routes if isinstance(routes, list) else [])
        if isinstance(route, dict)
    ]
    said += [
        (("alerts", "silences", index), silence)
        for index, silence in enumerate(silences if isinstance(silences, list) else [])
    ]
    for place, match in said:
        for unknown in known.unknown(match) if isinstance(match, dict) else ():
            where = (*place, unknown.label)
            yield where, unknown.text + nearest(unknown.word, unknown.choices)
