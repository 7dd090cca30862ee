"""Stored values -> the API's documents; pure."""

from dataclasses import asdict
from typing import Any

from orchestrator.api import messages
from orchestrator.core.model import RESTART, GpuSample, Incident, LinkState, Run, RunState, Target
from orchestrator.daemon import nodes
from orchestrator.reading import READ_BY, READ_TO

_OWN_KEYS = frozenset({"output_at", READ_TO, READ_BY})
"""Among a run's metrics, and none of the program's."""

_RESTART_COUNTS = frozenset({RunState.BACKOFF, RunState.FAILED, RunState.LOST})
"""What was said of a restart is of yesterday once there is another attempt, or a person's stop."""


def run_view(
    run: Run, *, link: LinkState, seen_at: float | None, log_bytes: int, detached: bool = False
) -> messages.RunView:
    """A run with what we see of its target."""
    verdict = dict(run.verdict) if run.verdict is not None else None
    (verdict or {}).pop(RESTART, None)
    return messages.RunView(
        id=run.id,
        job=run.job,
        target=run.target,
        state=run.state.value,
        attempt=run.attempt,
        exit_code=run.exit_code,
        signal=run.signal,
        started_at=run.started_at,
        ended_at=run.ended_at,
        step=run.step,
        loss=run.loss,
        phase=run.phase,
        verdict=verdict,
        restart=_restart(run),
        incident=run.incident,
        link=link.value,
        seen_at=seen_at,
        number=run.number,
        session=run.session,
        directory=run.directory,
        release=run.release,
        why=run.why,
        created_at=run.created_at,
        metrics={key: value for key, value in run.metrics.items() if key not in _OWN_KEYS},
        output_at=run.metrics.get("output_at"),
        log_bytes=log_bytes,
        detached=detached,
        forced=run.forced,
        group=run.env.get(nodes.GROUP),
        node=nodes.rank_of(run.env),
    )


def _restart(run: Run) -> dict[str, Any] | None:
    restart = (run.verdict or {}).get(RESTART)
    if restart is None or run.state not in _RESTART_COUNTS:
        return None
    return {"said": restart["said"], "at": restart["at"]}


def target_view(
    target: Target,
    *,
    link: LinkState,
    seen_at: float | None,
    watched: str,
    error: str | None,
    gpus: tuple[GpuSample, ...],
    gpu_source: str | None,
    gpus_at: float | None,
) -> messages.TargetView:
    """A target with its link and GPUs."""
    return messages.TargetView(
        name=target.name,
        host=target.host.name,
        transport=target.host.transport,
        runtime=target.runtime,
        container=target.container,
        link=link.value,
        seen_at=seen_at,
        watched=watched,
        error=error,
        gpus=[gpu_view(sample) for sample in gpus],
        gpu_source=gpu_source,
        gpus_at=gpus_at,
    )


def gpu_view(sample: GpuSample) -> dict[str, object]:
    """A GPU sample as a mapping."""
    view = asdict(sample)
    view["processes"] = [dict(item) for item in sample.processes]
    return view


def incident_view(incident: Incident, run: Run) -> messages.IncidentView:
    """An incident with its run's job and target."""
    return messages.IncidentView(
        id=incident.id,
        run=incident.run,
        job=run.job,
        target=run.target,
        attempt=incident.attempt,
        signature=incident.signature,
        severity=incident.severity.value,
        title=incident.title,
        state=incident.state.value,
        fingerprint=incident.fingerprint,
        family=incident.family,
        opened_at=incident.opened_at,
        updated_at=incident.updated_at,
        resolved_at=incident.resolved_at,
        occurrences=incident.occurrences,
        same_as=incident.same_as,
        finding=dict(incident.finding),
    )
