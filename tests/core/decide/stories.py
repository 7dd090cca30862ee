"""A run, its policy, and short words for what happens to it."""

from dataclasses import replace

from orchestrator.core.decide.decision import Action, ActionKind, Decision, Policy, RunView, after
from orchestrator.core.decide.inputs import (
    Accepted,
    FindingSeen,
    Input,
    Launched,
    VerdictReached,
)
from orchestrator.core.decide.lifecycle import decide
from orchestrator.core.events import Exited, RelayGone
from orchestrator.core.findings import Certainty, Finding, Outcome, Role, Verdict
from orchestrator.core.model import (
    AlertsSpec,
    ExitRecord,
    Host,
    Incident,
    Job,
    RestartPolicy,
    Run,
    RunState,
    Severity,
    SinkSpec,
    Target,
    WatchPolicy,
)

TARGET = Target(name="ct200", host=Host(name="pve1"), labels={"room": "cellar"})
SINKS = (SinkSpec(name="ops", type="webhook"), SinkSpec(name="phone", type="apprise"))


def policy(
    *on: str, max_attempts: int = 3, stop_on: tuple[str, ...] = (), alerts: AlertsSpec | None = None
) -> Policy:
    """A policy of a job that restarts on these words."""
    job = Job(
        name="dflash",
        targets=(TARGET,),
        command="true",
        workdir="/srv",
        restart=RestartPolicy(on=on, max_attempts=max_attempts, within_s=3600.0, backoff_s=30.0),
        watch=WatchPolicy(stop_on=stop_on),
    )
    return Policy(job=job, alerts=alerts or AlertsSpec(sinks=SINKS))


def run(number: int = 2, state: RunState = RunState.PENDING) -> Run:
    """A run of the job."""
    return Run(
        id=f"dflash-{number}",
        uid=f"u{number}",
        job="dflash",
        target="ct200",
        number=number,
        state=state,
        attempt=1,
        session="dflash",
        directory=f"/srv/runs/dflash-{number}",
    )


class Story:
    """Feeds events to `decide` one after the other, a second apart, and keeps what follows."""

    def __init__(self, rules: Policy | None = None, number: int = 2) -> None:
        self.rules = rules or policy()
        self.view = RunView(run=run(number))
        self.now = 1000.0
        self.last = Decision(run=self.view.run)
        self.sent: list[tuple[str, str]] = []
        """(status, signature) of every alert."""

    def tell(self, *events: Input, later_s: float = 1.0) -> "Story":
        """Let these events happen."""
        for event in events:
            self.now += later_s
            self.last = decide(self.view, event, self.rules, self.now)
            self.view = after(self.view, self.last)
            self.sent += [
                (one.alert.status, one.alert.labels["alertname"]) for one in self.last.outgoing
            ]
        return self

    def running(self) -> "Story":
        """Up to the program's start."""
        return self.tell(Accepted(), self.launched())

    def launched(self) -> Launched:
        """The present attempt is up."""
        return Launched(directory=f"/a/{self.view.run.attempt}", started_at=self.now)

    def exited(self, code: int | None = 1, signal: int | None = None) -> Exited:
        """The program has ended."""
        record = ExitRecord(code=code, signal=signal, started_at=self.now - 5, ended_at=self.now)
        return Exited(record=record, at=self.now)

    def gone(self) -> RelayGone:
        """The relay vanished."""
        return RelayGone(reason="rebooted", at=self.now)

    @property
    def state(self) -> RunState:
        """Of the run."""
        return self.view.run.state

    @property
    def incidents(self) -> tuple[Incident, ...]:
        """Of the run."""
        return self.view.incidents

    @property
    def actions(self) -> list[ActionKind]:
        """Kinds of the actions of the last decision."""
        return [action.kind for action in self.last.actions]

    def action(self, kind: ActionKind) -> Action:
        """The action of a kind of the last decision."""
        (found,) = [action for action in self.last.actions if action.kind is kind]
        return found


def finding(
    signature: str = "fx_trace_race",
    *,
    ends: str | None = "thread",
    family: str | None = "fx",
    role: Role = Role.ROOT,
    rank: int | None = None,
    fingerprint: str = "",
) -> Finding:
    """A finding of the log."""
    return Finding(
        signature=signature,
        role=role,
        line=40,
        text=f"Error of {signature}",
        rank=rank,
        thread="Thread-3 (compile)",
        traceback="Traceback (most recent call last):\n  ...",
        severity=Severity.CRITICAL,
        family=family,
        fingerprint=fingerprint or f"v1:{signature}",
        title=f"Title of {signature}",
        ends=ends,
    )


def seen(
    signature: str = "fx_trace_race", *, same_as: str | None = None, **fields: object
) -> FindingSeen:
    """A finding comes up."""
    made = replace(finding(signature), **fields)  # type: ignore[arg-type]
    return FindingSeen(
        finding=made, cause="The cause.", next_steps=("Do this.", "Then that."), same_as=same_as
    )


def crash(
    signature: str | None = "fx_trace_race",
    *,
    family: str | None = "fx",
    same_as: str | None = None,
    certainty: Certainty = Certainty.CERTAIN,
    evidence: tuple[str, ...] = ("40: Error",),
    unresolved: tuple[Incident, ...] = (),
) -> VerdictReached:
    """The verdict: crashed."""
    verdict = Verdict(
        verdict=Outcome.CRASHED,
        crash=True,
        signature=signature,
        title=f"Title of {signature}",
        severity=Severity.CRITICAL,
        family=family,
        fingerprint=f"v1:{signature}",
        cause="The cause.",
        next_steps=("Do this.",),
        traceback="Traceback (whole)",
        evidence=evidence,
        certainty=certainty,
        ends="process",
    )
    return VerdictReached(verdict=verdict, same_as=same_as, unresolved=unresolved)


def fine(unresolved: tuple[Incident, ...] = ()) -> VerdictReached:
    """The verdict: nothing crashed."""
    return VerdictReached(verdict=Verdict(verdict=Outcome.OK, crash=False), unresolved=unresolved)
