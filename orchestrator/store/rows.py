"""Nouns to rows and back; pure. Must not: execute anything."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from sqlalchemy import RowMapping

from orchestrator.core.decide.decision import Action, ActionKind, Silence
from orchestrator.core.findings import known_of
from orchestrator.core.model import (
    Alert,
    Attempt,
    Delivery,
    Incident,
    IncidentState,
    Release,
    Run,
    RunState,
    Severity,
    Target,
)


def row_of(noun: Any) -> dict[str, Any]:
    """Column values of a frozen noun whose columns have its fields' names."""
    return {one.name: plain(getattr(noun, one.name)) for one in fields(noun)}


def plain(value: Any) -> Any:
    """JSON's own containers in place of frozen ones."""
    if isinstance(value, Target):
        return value.to_json()
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    return value


def run_of(row: RowMapping) -> Run:
    """The Run of a row of `runs`."""
    values = _without(row, "seq")
    values["state"] = RunState(values["state"])
    values["args"] = tuple(values["args"])
    if values["whereabouts"] is not None:
        values["whereabouts"] = Target.from_json(values["whereabouts"])
    return Run(**values)


def attempt_of(row: RowMapping) -> Attempt:
    """The Attempt of a row of `attempts`."""
    return Attempt(**_without(row, "run"))


def incident_of(row: RowMapping) -> Incident:
    """The Incident of a row of `incidents`."""
    values = _without(row, "seq", "job")
    values["severity"] = Severity(values["severity"])
    values["state"] = IncidentState(values["state"])
    return Incident(**values)


def action_of(row: RowMapping) -> Action:
    """The Action of a row of `actions`."""
    return Action(
        kind=ActionKind(row["kind"]),
        run=row["run"],
        attempt=row["attempt"],
        at=row["at"],
        grace_s=row["grace_s"],
        reason=row["reason"],
    )


def delivery_of(row: RowMapping) -> Delivery:
    """The Delivery of a row of `deliveries`."""
    return Delivery(
        id=row["id"],
        alert=Alert(**known_of(Alert, row["alert"])),
        sink=row["sink"],
        attempts=row["attempts"],
        next_at=row["next_at"],
        state=row["state"],
        error=row["error"],
        created_at=row["created_at"],
        digest=row["digest"],
    )


def release_of(row: RowMapping) -> Release:
    """The Release of a row of `releases`."""
    return Release(digest=row["digest"], path=row["path"], files=row["files"], bytes=row["bytes"])


def silence_of(row: RowMapping) -> Silence:
    """The Silence of a row of `silences`."""
    return Silence(**row)


def _without(row: RowMapping, *names: str) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key not in names}
