"""A job's configuration as a launch used it: plain keys and texts, so that two can be compared.

Owns which keys there are. Values whose names speak of a secret are never kept.
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from orchestrator.core.model import (
    Job,
    PreflightPolicy,
    RestartPolicy,
    Run,
    Setup,
    WatchPolicy,
)
from orchestrator.core.parse.secret_search import known

_SECRET = ("TOKEN", "SECRET", "KEY", "PASSWORD", "CREDENTIAL")
_HIDDEN = "(hidden)"


def configuration(job: Job, run: Run) -> dict[str, str]:
    """Key -> value of everything that decides how the run's program is started and watched."""
    return {
        "command": _word(job.command),
        "args": _word(run.args),
        "target": ", ".join(target.name for target in job.targets),
        "python": job.target.python or "",
        **_flat("env", {**job.env, **run.env}),
        "secrets": _word(job.secrets),
        "shared": _word(job.shared),
        **_flat("setup", _members(job.setup) if job.setup else {}),
        **_flat("preflight", _members(job.preflight)),
        **_flat("watch", _members(job.watch)),
        **_flat("restart", _members(job.restart)),
    }


def asked(run: Run, secrets: Mapping[str, str]) -> dict[str, Any]:
    """What a person asked a run for, to be kept beside it on its target; without any secret.

    `whole` says whether nothing had to be left out, so that it could be launched again as it was.
    """
    hidden = known(secrets.values())

    def is_open(text: str) -> bool:
        return not hidden.spans(text.encode("utf-8", "surrogatepass"))

    env = {
        name: value
        for name, value in run.env.items()
        if not _speaks_of_a_secret(name) and is_open(value)
    }
    args = list(run.args) if all(map(is_open, run.args)) else []
    return {
        "target": run.target,
        "args": args,
        "env": env,
        "why": run.why if is_open(run.why) else "",
        "forced": run.forced,
        "whole": len(env) == len(run.env) and len(args) == len(run.args),
    }


def changed_keys(
    before: Mapping[str, str], after: Mapping[str, str]
) -> list[tuple[str, str | None, str | None]]:
    """Key, old and new value of what differs; None where a key was not there.

    A key that was not there is no other than an empty one.
    """
    return [
        (key, before.get(key), after.get(key))
        for key in sorted({*before, *after})
        if (before.get(key) or "") != (after.get(key) or "")
    ]


def _members(part: Setup | PreflightPolicy | WatchPolicy | RestartPolicy) -> dict[str, Any]:
    # dataclasses.asdict copies, and a frozen mapping cannot be copied.
    return {field.name: getattr(part, field.name) for field in fields(part)}


def _speaks_of_a_secret(name: str) -> bool:
    return any(word in name.upper() for word in _SECRET)


def _flat(name: str, value: Mapping[str, Any]) -> dict[str, str]:
    found: dict[str, str] = {}
    for key, item in value.items():
        if isinstance(item, Mapping):
            found |= _flat(f"{name}.{key}", item)
        elif _speaks_of_a_secret(key):
            found[f"{name}.{key}"] = _HIDDEN
        else:
            found[f"{name}.{key}"] = _word(item)
    return found


def _word(value: Any) -> str:
    if isinstance(value, tuple | list):
        return " ".join(str(item) for item in value)
    return "" if value is None else str(value)
