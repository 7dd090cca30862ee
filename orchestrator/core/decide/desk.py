"""One decision while it is being made: what each event means in each state.

Owns the order of states and what is told to whom; lifecycle.py says which event leads where.
Must not: do anything, or read a clock.
"""

from dataclasses import replace

from orchestrator.core.decide import alerts, incidents
from orchestrator.core.decide.decision import (
    HUMAN,
    STOP_ON,
    Action,
    ActionKind,
    Decision,
    Note,
    Outgoing,
    Policy,
    RunView,
)
from orchestrator.core.decide.evidence import concerns_gpus
from orchestrator.core.decide.inputs import FindingSeen, Launched, VerdictReached
from orchestrator.core.decide.restart import GiveUp, Restart, judge
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

POLICY_STOP_GRACE_S = 30.0

_LIVE = frozenset({RunState.STARTING, RunState.RUNNING, RunState.STOPPING})
_NOT_LAUNCHED = frozenset({RunState.PENDING, RunState.BACKOFF})
_WORK = frozenset({ActionKind.LAUNCH, ActionKind.RELAUNCH, ActionKind.END_REMAINS})


class Desk:
    """One decision while it is being made."""

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

    # From the request to the first attempt.

    def accepted(self) -> None:
        """The run begins."""
        if self._run.state is not RunState.PENDING:
            return
        self._run = replace(self._run, attempt=1)
        self._go(RunState.STARTING)
        self._act(ActionKind.LAUNCH)

    def not_started(self, text: str) -> None:
        """A launch failed for good."""
        self._done = frozenset({ActionKind.LAUNCH})
        if self._run.state is not RunState.STARTING:
            return
        self._end(RunState.FAILED)
        self._keep(
            incidents.observe(self._view, incidents.of_failed_launch(text), self._now), outlook=""
        )

    def launched(self, event: Launched) -> None:
        """The program runs."""
        self._done = frozenset({ActionKind.LAUNCH})
        run = self._run
        if run.state.ended:
            # A stop and a launch crossed; what the launch brought up is to go again.
            self._act(ActionKind.END_REMAINS, reason="launched after the end")
            return
        if run.state not in _LIVE or self._attempt() is not None:
            return
        self._attempts.append(
            Attempt(number=run.attempt, directory=event.directory, started_at=event.started_at)
        )
        self._run = replace(run, started_at=run.started_at or event.started_at)
        if run.state is RunState.STARTING:
            self._go(RunState.RUNNING)

    def backoff_over(self) -> None:
        """The next attempt begins."""
        self._done = frozenset({ActionKind.RELAUNCH})
        if self._run.state is not RunState.BACKOFF:
            return
        self._run = replace(self._run, attempt=self._run.attempt + 1)
        self._go(RunState.STARTING)
        self._act(ActionKind.END_REMAINS)
        self._act(ActionKind.LAUNCH)

    # The end of an attempt.

    def attempt_ended(
        self, at: float, code: int | None, signal: int | None, started_at: float | None
    ) -> None:
        """The program ended; the verdict will say what that means."""
        known = self._attempt()
        if self._run.state not in _LIVE or (known is not None and known.ended_at is not None):
            return
        known = known or Attempt(
            number=self._run.attempt, directory=self._run.directory, started_at=started_at
        )
        self._attempts.append(replace(known, ended_at=at, exit_code=code, signal=signal))
        self._run = replace(self._run, exit_code=code, signal=signal)
        self.note("attempt.ended", attempt=known.number, exit_code=code, signal=signal)

    def verdict_reached(self, event: VerdictReached) -> None:
        """The attempt is over, and with it the run, or the next one is due."""
        if self._run.state not in _LIVE:
            return
        self._run = replace(self._run, verdict=event.verdict.to_json())
        attempt = self._attempt()
        if self._run.state is RunState.STOPPING and self._view.stop_reason != STOP_ON:
            self._end(RunState.STOPPED)
        elif not event.verdict.crash and attempt is not None and attempt.exit_code == 0:
            self._end(RunState.FINISHED)
            for one in incidents.to_resolve(self._view, event.unresolved):
                self._resolve(one, f"run {self._run.number} finished.")
        else:
            self._failed(event, attempt)

    def _failed(self, event: VerdictReached, attempt: Attempt | None) -> None:
        choice = judge(
            self._policy.job.restart,
            event.verdict,
            exit_code=self._run.exit_code,
            starts=[one.started_at for one in self._view.attempts if one.started_at is not None],
            now=self._now,
        )
        if isinstance(choice, Restart):
            self._go(RunState.BACKOFF)
            self._act(ActionKind.COLLECT_EVIDENCE)
            self._act(ActionKind.RELAUNCH, attempt=self._run.attempt + 1, at=choice.at)
            outlook = f"Restarting, {choice.reason}."
        else:
            silent = attempt is None or (attempt.exit_code is None and attempt.signal is None)
            gone = silent and event.raw is None
            self._end(RunState.LOST if gone else RunState.FAILED)
            if concerns_gpus(event.verdict):
                self._act(ActionKind.COLLECT_EVIDENCE)
            wanted = bool(self._policy.job.restart.on)
            outlook = f"Not restarted: {choice.reason}." if wanted else ""
        change = incidents.observe(self._view, incidents.of_verdict(event, attempt), self._now)
        self._keep(change, outlook=outlook, told=event.told)
        quiet = change.told or change.incident.state is not IncidentState.OPEN
        if isinstance(choice, GiveUp) and self._run.attempt > 1 and not quiet:
            job, target = self._policy.job, self._target()
            self._send(alerts.given_up(change.incident, job, target, outlook=outlook))

    # A person's word, and the policy's.

    def stop_asked(self, grace_s: float) -> None:
        """A person wants its end."""
        state = self._run.state
        if state in _NOT_LAUNCHED:
            self._end(RunState.STOPPED)
        elif state in _LIVE and self._view.stop_reason != HUMAN:
            self._stop(HUMAN, grace_s)

    def stop_done(self) -> None:
        """Nothing is left; a launched attempt waits for its verdict all the same."""
        self._done = frozenset({ActionKind.STOP})
        if self._run.state is RunState.STOPPING and self._attempt() is None:
            human = self._view.stop_reason != STOP_ON
            self._end(RunState.STOPPED if human else RunState.FAILED)

    def acknowledged(self, ident: str) -> None:
        """A person knows of the incident: whoever was called is told so."""
        for one in self._view.incidents:
            if one.id == ident and one.state is IncidentState.OPEN:
                known = replace(one, state=IncidentState.ACKNOWLEDGED, updated_at=self._now)
                self._incidents.append(known)
                self.note("incident.acknowledged", incident=ident)
                over = replace(known, resolved_at=self._now)
                job, target = self._policy.job, self._target()
                self._send(alerts.resolved(over, job, target, outlook="Acknowledged."))

    def reminded(self, ident: str, nth: int) -> None:
        """Time has passed, and nobody cares yet."""
        for one in self._view.incidents:
            if one.id == ident and one.state is IncidentState.OPEN:
                self.note("incident.reminded", incident=ident, nth=nth)
                self._send(alerts.reminder(one, self._policy.job, self._target(), nth))

    # What is seen while it runs.

    def finding_seen(self, event: FindingSeen) -> None:
        """Something was found while it runs."""
        run, finding = self._run, event.finding
        if run.state not in _LIVE or self._view.stop_reason == HUMAN:
            return
        seen = incidents.of_finding(event)
        if seen is None:
            return
        words = {finding.signature, f"{finding.ends}_death"}
        stops = words.intersection(self._policy.job.watch.stop_on)
        self._keep(
            incidents.observe(self._view, seen, self._now),
            outlook="The run is stopped, as watch.stop_on says." if stops else "",
            told=event.told if seen.ends is not None else None,
        )
        if stops and run.state is not RunState.STOPPING:
            self._stop(STOP_ON, POLICY_STOP_GRACE_S)

    # Small parts.

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
