"""What each event means in each state: one decision while it is being made.

Owns the order of states and what is told to whom; lifecycle.py says which event leads where, and
paper.py has what a decision consists of. Must not: do anything, or read a clock.
"""

from dataclasses import replace

from orchestrator.core.decide import alerts, incidents
from orchestrator.core.decide.decision import HUMAN, STOP_ON, ActionKind
from orchestrator.core.decide.evidence import concerns_gpus
from orchestrator.core.decide.inputs import FindingSeen, Launched, VerdictReached
from orchestrator.core.decide.paper import Paper
from orchestrator.core.decide.restart import GiveUp, Restart, judge
from orchestrator.core.findings import Certainty, Verdict
from orchestrator.core.model import RESTART, Attempt, Incident, IncidentState, RunState

POLICY_STOP_GRACE_S = 30.0

_LIVE = frozenset({RunState.STARTING, RunState.RUNNING, RunState.STOPPING})
_NOT_LAUNCHED = frozenset({RunState.PENDING, RunState.BACKOFF})


class Desk(Paper):
    """What each event means, as far as the run is."""

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

    def backoff_over(self, attempt: int) -> None:
        """The next attempt begins."""
        waits = self._run.state is RunState.BACKOFF
        if waits and attempt != self._run.attempt + 1:
            return
        self._done = frozenset({ActionKind.RELAUNCH})
        if not waits:
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
        attempt = self._attempt()
        event = _with_word_of_the_end(event, attempt)
        if self._view.stop_reason == STOP_ON:
            event = self._as_stopped_for(event)
        self._run = replace(self._run, verdict=event.verdict.to_json())
        if self._run.state is RunState.STOPPING and self._view.stop_reason != STOP_ON:
            self._end(RunState.STOPPED)
        elif not event.verdict.crash and attempt is not None and attempt.exit_code == 0:
            self._end(RunState.FINISHED)
            for one in incidents.to_resolve(self._view, event.unresolved):
                self._resolve(one, f"run {self._run.number} finished.")
        else:
            self._failed(event, attempt)

    def _as_stopped_for(self, event: VerdictReached) -> VerdictReached:
        """Where the log tells of our own signal alone, the cause is what it was stopped for."""
        words, seen = set(self._policy.job.watch.stop_on), event.verdict
        said = seen.certainty is not Certainty.GUESS and seen.signature not in (None, "interrupted")
        for one in () if said else reversed(self._view.incidents):
            names = {one.signature, f"{one.finding.get('ends')}_death"}
            if one.attempt == self._run.attempt and words & names:
                return replace(event, verdict=incidents.verdict_of(one, seen), same_as=one.same_as)
        return event

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
            outlook = self._said(f"Restarting, {choice.reason}.", choice.at)
        else:
            self._end(RunState.FAILED if event.verdict.recorded else RunState.LOST)
            if concerns_gpus(event.verdict):
                self._act(ActionKind.COLLECT_EVIDENCE)
            wanted = bool(self._policy.job.restart.on)
            outlook = self._said(f"Not restarted: {choice.reason}.") if wanted else ""
        change = incidents.observe(self._view, incidents.of_verdict(event, attempt), self._now)
        self._keep(change, outlook=outlook, told=event.told)
        quiet = change.told or change.incident.state is not IncidentState.OPEN
        if isinstance(choice, GiveUp) and self._run.attempt > 1 and not quiet:
            self._give_up(change.incident, outlook)

    def _said(self, text: str, at: float | None = None) -> str:
        """What the policy makes of the end: the run shows it until it is launched again."""
        assert self._run.verdict is not None
        restart = {"said": text, "at": at, "by": self._policy.job.restart.words}
        self._run = replace(self._run, verdict={**self._run.verdict, RESTART: restart})
        return text

    def _give_up(self, incident: Incident, outlook: str) -> None:
        job, target = self._policy.job, self._target()
        self._send(alerts.given_up(incident, job, target, outlook=outlook))

    def policy_changed(self) -> None:
        """A run that waits for its next attempt waits as the job says now, or no more."""
        attempt = self._attempt()
        if self._run.state is not RunState.BACKOFF or attempt is None or not self._run.verdict:
            return
        document = {key: one for key, one in self._run.verdict.items() if key != RESTART}
        verdict = Verdict.from_json(document)
        choice = judge(
            self._policy.job.restart,
            verdict,
            exit_code=self._run.exit_code,
            starts=[one.started_at for one in self._view.attempts if one.started_at is not None],
            now=attempt.ended_at or self._now,
        )
        self.note("restart.weighed_anew", reason=choice.reason)
        if isinstance(choice, Restart):
            self._cancel = frozenset({ActionKind.RELAUNCH})
            number, reason = self._run.attempt + 1, f"as the job says since {self._now:.3f}"
            self._act(ActionKind.RELAUNCH, attempt=number, at=choice.at, reason=reason)
            self._said(f"Restarting, {choice.reason}.", choice.at)
            return
        self._end(RunState.FAILED if verdict.recorded else RunState.LOST)
        outlook = self._said(f"Not restarted any more: {choice.reason}.")
        for one in self._view.incidents:
            if one.id == self._run.incident and one.state is IncidentState.OPEN:
                self._give_up(one, outlook)

    # A person's word, and the policy's.

    def stop_asked(self, grace_s: float) -> None:
        """A person wants its end."""
        state = self._run.state
        if state in _NOT_LAUNCHED:
            self._end(RunState.STOPPED)
            if state is RunState.BACKOFF:
                # What the attempt left would be ended by the next one, which never comes.
                self._act(ActionKind.END_REMAINS, grace_s=grace_s, reason="stopped in a back-off")
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

    def reminded(self, ident: str, due_s: int) -> None:
        """Time has passed, and nobody cares yet."""
        for one in self._view.incidents:
            if one.id == ident and one.state is IncidentState.OPEN:
                self.note("incident.reminded", incident=ident, due_s=due_s)
                self._send(alerts.reminder(one, self._policy.job, self._target(), due_s))

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


def _with_word_of_the_end(event: VerdictReached, attempt: Attempt | None) -> VerdictReached:
    """A plain shell's word counts as well: a number, which may mean a code or a signal."""
    told = attempt is not None and (attempt.exit_code, attempt.signal) != (None, None)
    recorded = told or event.raw is not None
    return replace(event, verdict=replace(event.verdict, recorded=recorded))
