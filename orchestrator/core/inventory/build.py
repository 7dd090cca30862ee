"""Checked values -> the frozen nouns of core.model; the one way from bytes to an Inventory."""

import hashlib
import posixpath
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

from orchestrator.core.errors import InventoryError, Problem
from orchestrator.core.inventory.document import Location, read_document
from orchestrator.core.inventory.names import dangling, name_problems
from orchestrator.core.inventory.problems import key_path, shape_problems
from orchestrator.core.inventory.shape import (
    AlertsShape,
    HostShape,
    InventoryShape,
    JobShape,
    SetupShape,
    TargetShape,
)
from orchestrator.core.inventory.units import parse_hours
from orchestrator.core.inventory.values import TAKEN_BEFORE
from orchestrator.core.model import (
    AlertsSpec,
    Host,
    Inventory,
    Job,
    PreflightPolicy,
    RestartPolicy,
    Route,
    Setup,
    SinkSpec,
    Target,
    WatchPolicy,
)

Value = TypeVar("Value")

CheckRule = Callable[[Mapping[str, Any]], object]
"""Raises ValueError `KEY: reason` for the first thing wrong with a rule."""


def parse_inventory(
    text: bytes,
    *,
    path: str,
    folder: str,
    exists: Callable[[str], bool],
    home: str,
    check_rule: CheckRule = lambda _: None,
    taken_before: bool = False,
) -> Inventory:
    """Read an inventory.

    `path` is the file's real path, `folder` its folder, `home` what `~` stands for; `exists` says
    whether a folder is there; `check_rule` reads a rule, which is detection's to know. Raises
    InventoryError with every problem, in order of line. `taken_before` says that it was good when
    it was taken: what has to be told of it by now hinders no daemon from starting.
    """
    document, context = read_document(text), TAKEN_BEFORE if taken_before else None
    faults = [*document.faults]
    if not faults:
        tree = {} if document.tree is None else document.tree
        found = shape_problems(tree, context)
        if isinstance(tree, dict):
            names = dangling(tree) if taken_before else name_problems(tree, folder, exists)
            found += names
            found += _rule_problems(tree.get("rules"), check_rule)
        faults = [(place, document.line(place), sentence) for place, sentence in found]
    if faults:
        raise InventoryError(_problems(faults, path))
    shape = InventoryShape.model_validate(document.tree, context=context)
    return _Builder(folder, home).inventory(shape, text, path)


def _rule_problems(rules: object, check_rule: CheckRule) -> Iterator[tuple[Location, str]]:
    for index, rule in enumerate(rules if isinstance(rules, list) else []):
        if not isinstance(rule, dict):
            continue
        try:
            check_rule(rule)
        except ValueError as error:
            key, _, reason = str(error).partition(": ")
            yield ("rules", index, key), reason


def _problems(faults: list[tuple[Location, int, str]], path: str) -> tuple[Problem, ...]:
    problems = {
        Problem(file=path, line=line, key=key_path(place), text=sentence)
        for place, line, sentence in faults
    }
    return tuple(sorted(problems, key=lambda problem: (problem.line, problem.key, problem.text)))


def _frozen(mapping: Mapping[str, Value]) -> Mapping[str, Value]:
    return MappingProxyType(dict(mapping))


class _Builder:
    """Knows what relative paths and `~` mean while the nouns are made."""

    def __init__(self, folder: str, home: str) -> None:
        self._folder = folder
        self._home = home

    def inventory(self, shape: InventoryShape, text: bytes, path: str) -> Inventory:
        hosts = {name: self._host(name, host) for name, host in shape.hosts.items()}
        targets = {
            name: self._target(name, target, hosts[target.host])
            for name, target in shape.targets.items()
        }
        jobs = {name: self._job(name, job, targets) for name, job in shape.jobs.items()}
        return Inventory(
            path=path,
            digest=hashlib.sha256(text).hexdigest(),
            hosts=_frozen(hosts),
            targets=_frozen(targets),
            jobs=_frozen(jobs),
            alerts=_alerts(shape.alerts),
            rules=tuple(_frozen(rule) for rule in shape.rules),
        )

    def _at_home(self, path: str) -> str:
        return posixpath.join(self._home, path[2:]) if path.startswith("~/") else path

    def _here(self, path: str) -> str:
        return posixpath.normpath(posixpath.join(self._folder, self._at_home(path)))

    def _host(self, name: str, host: HostShape) -> Host:
        return Host(
            name=name,
            transport=host.transport,
            hostname=host.hostname,
            port=host.port,
            user=host.user,
            identity_file=self._here(host.identity_file) if host.identity_file else None,
            known_hosts=self._here(host.known_hosts) if host.known_hosts else None,
            proxy_jump=host.proxy_jump,
            become=host.become,
            runtime_path=host.runtime_path,
        )

    def _target(self, name: str, target: TargetShape, host: Host) -> Target:
        python = target.python
        if python and "/" in python and host.transport == "local" and target.runtime == "none":
            python = self._here(python)
        return Target(
            name=name,
            host=host,
            runtime=target.runtime,
            container=target.container,
            user=target.user,
            tmux_socket=target.tmux_socket,
            python=python,
            labels=_frozen(target.labels),
        )

    def _job(self, name: str, job: JobShape, targets: Mapping[str, Target]) -> Job:
        names = job.targets or [str(job.target)]
        preflight, watch, restart = job.preflight, job.watch, job.restart
        return Job(
            name=name,
            targets=tuple(targets[target] for target in names),
            command=job.command if isinstance(job.command, str) else tuple(job.command),
            workdir=self._at_home(job.workdir),
            package=self._here(job.package) if job.package else None,
            exclude=tuple(job.exclude),
            setup=_setup(job.setup) if job.setup else None,
            session=job.session or name,
            env=_frozen(job.env),
            secrets=tuple(job.secrets),
            preflight=PreflightPolicy(
                gpus_idle=preflight.gpus_idle,
                stale_processes=preflight.stale_processes,
                min_free_disk_bytes=preflight.min_free_disk,
                ports=tuple(preflight.ports),
                data_paths=tuple(preflight.data_paths),
                packages=_frozen(preflight.packages),
            ),
            watch=WatchPolicy(
                start_within_s=watch.start_within,
                output_within_s=watch.output_within,
                metrics=_frozen(watch.metrics),
                expect=tuple(watch.expect),
                stop_on=tuple(watch.stop_on),
            ),
            restart=RestartPolicy(
                on=tuple(restart.on),
                max_attempts=restart.max_attempts,
                within_s=restart.within,
                backoff_s=restart.backoff,
            ),
            shared=tuple(job.shared),
            wheelhouse=self._here(job.wheelhouse) if job.wheelhouse else None,
            keep=job.keep,
        )


def _setup(setup: SetupShape) -> Setup:
    return Setup(
        python=setup.python,
        requirements=setup.requirements,
        system_site_packages=setup.system_site_packages,
        run=tuple(setup.run),
    )


def _alerts(alerts: AlertsShape) -> AlertsSpec:
    return AlertsSpec(
        sinks=tuple(
            SinkSpec(
                name=name,
                type=sink.type,
                url_env=sink.url_env,
                secret_env=sink.secret_env,
                format=sink.format,
                command=tuple(sink.command),
                wrapper_alert=sink.wrapper_alert,
            )
            for name, sink in alerts.sinks.items()
        ),
        routes=tuple(
            Route(match=_frozen(route.match), to=tuple(route.to)) for route in alerts.routes
        ),
        silences=tuple(_frozen(silence) for silence in alerts.silences),
        heartbeat_url_env=alerts.heartbeat_url_env,
        remind_s=alerts.remind,
        cool_down_s=alerts.cool_down,
        quiet_hours=parse_hours(alerts.quiet_hours) if alerts.quiet_hours else None,
    )
