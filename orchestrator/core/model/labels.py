"""The labels of an alert: what routes and silences match, and receivers group by.

Owns which there are and how they are written, whoever tells of an end.
"""

from orchestrator.core.model.declared import Job, Target
from orchestrator.core.model.happened import Severity

LABELS = ("alertname", "severity", "host", "target", "job", "run", "attempt", "rank")
"""What every alert has; labels of its target come on top, and never in the place of one."""


def alert_labels(
    job: Job,
    target: Target,
    *,
    alertname: str,
    severity: Severity,
    run: str,
    attempt: int,
    rank: int | None = None,
) -> dict[str, str]:
    """All labels, each a text; empty where there is no rank."""
    values = (
        *(alertname, severity.value, target.host.name, target.name, job.name, run),
        *(str(attempt), "" if rank is None else str(rank)),
    )
    return {**target.labels, **dict(zip(LABELS, values, strict=True))}
