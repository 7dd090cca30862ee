"""Alerts for tests of the sinks."""

from orchestrator.core.decide.decision import Outgoing
from orchestrator.core.model import Alert

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def alert(
    incident: str = "i1", *, status: str = "firing", nth: int = 1, traceback: str = "Traceback"
) -> Alert:
    """An alert with the labels and annotations that every one has."""
    return Alert(
        id=f"{incident}-{status}-{nth}",
        incident=incident,
        status=status,
        labels={
            "alertname": "fx_trace_race",
            "severity": "critical",
            "host": "pve1",
            "target": "ct200",
            "job": "dflash",
            "run": "dflash-2",
            "attempt": "1",
            "rank": "0",
        },
        annotations={
            "summary": f"dflash-2 crashed: FX tracing race ({incident})",
            "description": "Two threads traced at once.",
            "evidence": "line 1",
            "traceback": traceback,
            "thread": "Thread-3",
            "next_steps": "1. Compile once.",
            "same_as": "same as run 1: not a fix",
            "command": f"orch explain {incident}",
        },
        starts_at=1_800_000_000.25,
        ends_at=None if status == "firing" else 1_800_000_060.0,
        fingerprint="v1:aa",
    )


def outgoing(incident: str, *sinks: str, status: str = "firing", nth: int = 1) -> Outgoing:
    """The alert on its way to sinks."""
    return Outgoing(alert=alert(incident, status=status, nth=nth), sinks=sinks or ("ops",))
