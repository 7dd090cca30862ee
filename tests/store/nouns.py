"""Nouns with everything in them, for tests of the store."""

from orchestrator.core.decide.decision import Outgoing
from orchestrator.core.model import Alert, Incident, IncidentState, Run, RunState, Severity


def draft(job: str = "dflash") -> Run:
    """A run as the daemon asks the store to create it."""
    return Run(
        id="",
        uid="u1",
        job=job,
        target="ct200",
        number=0,
        state=RunState.PENDING,
        attempt=1,
        session="dflash",
        directory="/srv/orch/runs/{id}.u1",
        why="remove the wrapper",
        args=("--x", "1"),
        env={"A": "b"},
    )


def incident(
    run: str, *, ident: str = "i1", fingerprint: str = "v1:aa", family: str | None = None
) -> Incident:
    """An open incident."""
    return Incident(
        id=ident,
        run=run,
        attempt=1,
        fingerprint=fingerprint,
        family=family,
        signature="fx_trace_race",
        severity=Severity.CRITICAL,
        title="FX tracing race",
        state=IncidentState.OPEN,
        opened_at=10.0,
        updated_at=10.0,
        finding={"traceback": "T", "next_steps": ["a"]},
    )


def outgoing(
    incident_id: str, status: str = "firing", sinks: tuple[str, ...] = ("ops",)
) -> Outgoing:
    """An alert about an incident."""
    return Outgoing(
        alert=Alert(
            id=f"{incident_id}-{status}",
            incident=incident_id,
            status=status,
            labels={"alertname": "fx_trace_race", "job": "dflash"},
            annotations={"summary": "s"},
            starts_at=10.0,
            ends_at=None,
            fingerprint="v1:aa",
        ),
        sinks=sinks,
    )
