"""A decision while it is being written: what it has so far, and the small verbs that add to it.

Owns what goes with what: an incident with its alert, an end with the work that it cancels. What an
event means is desk.py's. Must not: do anything, or read a clock.
"""

from dataclasses import replace

from orchestrator.core.decide import alerts, incidents
from orchestrator.core.decide.decision import (
    Action,
    ActionKind,
    Decision,
    Note,
    Outgoing,
    Policy,
    RunView,
)
from orchestrator.core.decide.routes import sinks_for
from orchestrator.core.model import (
    Alert,
    Attempt,
    Incident,
    IncidentState,
    RunState,
    Severity,
    Target,
)

_WORK = frozenset({ActionKind.LAUNCH, ActionKind.RELAUNCH, ActionKind.END_REMAINS})


class Paper:
    """What one decision is to hold."""

    def __init__(self, view: RunView, policy: Policy, now: float) -> None:
        self._view = view
        self._policy = policy
        self._now = now
        self._run = view.run
        self._attempts: list[Attempt] = []
        self._incidents: list[Incident] = []
        self._outgoing: list[Outgoing] = []
        self._actions: list[Action] = []
        self._done: frozenset[ActionKind] = frozenset()
        self._cancel: frozenset[ActionKind] = frozenset()
        self._notes: list[Note] = []

    def decision(self) -> Decision:
        """What has come together."""
        return Decision(
            run=self._run,
            attempts=tuple(self._attempts),
            incidents=tuple(self._incidents),
            outgoing=tuple(self._outgoing),
            actions=tuple(self._actions),
            done=self._done,
            cancel=self._cancel,
            notes=tuple(self._notes),
        )

    def note(self, kind: str, **body: object) -> None:
        """Write a line of the journal."""
        self._notes.append(Note(kind=kind, body=body))

    def _attempt(self) -> Attempt | None:
        numbers = (one for one in self._view.attempts if one.number == self._run.attempt)
        return next(numbers, None)

    def _target(self) -> Target:
        return self._policy.job.target_named(self._run.target)

    def _go(self, state: RunState) -> None:
        self._run = replace(self._run, state=state)
        self.note(f"run.{state}", attempt=self._run.attempt)

    def _end(self, state: RunState) -> None:
        attempt = self._attempt()
        ended_at = attempt.ended_at if attempt is not None else None
        self._run = replace(self._run, ended_at=ended_at or self._now)
        self._cancel = _WORK
        self._go(state)

    def _act(
        self,
        kind: ActionKind,
        *,
        attempt: int | None = None,
        at: float | None = None,
        grace_s: float | None = None,
        reason: str = "",
    ) -> None:
        number = self._run.attempt if attempt is None else attempt
        self._actions.append(
            Action(
                kind=kind, run=self._run.id, attempt=number, at=at, grace_s=grace_s, reason=reason
            )
        )

    def _stop(self, reason: str, grace_s: float) -> None:
        self._cancel = _WORK
        self._go(RunState.STOPPING)
        self._act(ActionKind.STOP, grace_s=grace_s, reason=reason)

    def _keep(self, change: incidents.Change, *, outlook: str, told: str | None = None) -> None:
        """An incident and its alert; under the id of `told`, what the relay told of already."""
        incident = change.incident
        self._incidents.append(incident)
        self._run = replace(self._run, incident=incident.id)
        kind = "incident.opened" if change.opened else "incident.updated"
        self.note(kind, incident=incident.id, signature=incident.signature)
        if change.told:
            job, target = self._policy.job, self._target()
            alert = alerts.firing(incident, job, target, outlook=outlook)
            if told is not None and change.opened and not self._fatal_before():
                alert = replace(alert, id=told)
                self.note("end.told", incident=incident.id, id=told)
            self._send(alert, cool_down_s=self._policy.alerts.cool_down_s if change.opened else 0.0)

    def _fatal_before(self) -> bool:
        """Whether an incident of the present attempt stands for an end already."""
        return any(
            one.attempt == self._run.attempt and one.finding.get("ends") is not None
            for one in self._view.incidents
        )

    def _resolve(self, incident: Incident, why: str) -> None:
        over = replace(
            incident, state=IncidentState.RESOLVED, resolved_at=self._now, updated_at=self._now
        )
        self._incidents.append(over)
        self.note("incident.resolved", incident=over.id)
        if incident.state is IncidentState.OPEN:
            self._send(alerts.resolved(over, self._policy.job, self._target(), outlook=why))

    def _send(self, alert: Alert, *, cool_down_s: float = 0.0) -> None:
        policy = self._policy
        sinks = sinks_for(alert.labels, policy.alerts, policy.silences, self._now)
        urgent = alert.labels["severity"] == Severity.CRITICAL
        not_before = None if urgent else policy.quiet_until
        self._outgoing.append(
            Outgoing(alert=alert, sinks=sinks, not_before=not_before, cool_down_s=cool_down_s)
        )
