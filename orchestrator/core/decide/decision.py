"""What decide/ takes in and gives back: views, actions and decisions as values that can be stored.

`store.apply(decision)` writes a decision in one transaction; only then are its actions done, in
their order and one after the other. An action that ends in an input (Launched, BackoffOver, ...)
is marked done in the transaction of the decision on that input, so that a daemon killed between
the two does it again; the others are marked by `store.actions.done(action)`. Every action has a
key, so that a decision reached twice (a new daemon read the same log again) adds none.
Must not: do anything, or read a clock.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from orchestrator.core.model import Alert, AlertsSpec, Attempt, Incident, Job, Run

HUMAN = "human"
"""Reason of a stop that a person asked for; it beats every policy."""

STOP_ON = "stop_on"
"""Reason of a stop that `watch.stop_on` asked for; the run counts as failed."""


class ActionKind(StrEnum):
    """What the supervisor is to do; each one is safe to do again after a crash in between."""

    LAUNCH = "launch"
    """Start the attempt (idempotent by its folder); ends in Launched or LaunchFailed."""
    RELAUNCH = "relaunch"
    """Wait until `at`, then feed BackoffOver."""
    STOP = "stop"
    """End the attempt with `grace_s`; the exit record follows as an event."""
    COLLECT_EVIDENCE = "collect_evidence"
    """Stacks, GPU state, kernel log, before anything is ended or launched again."""
    END_REMAINS = "end_remains"
    """End what is left of the same run; what is foreign blocks the launch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One thing the supervisor must do."""

    kind: ActionKind
    run: str
    attempt: int
    at: float | None = None
    """Not before this unix time."""
    grace_s: float | None = None
    reason: str = ""

    @property
    def key(self) -> str:
        """Stable name; the store keeps one row for it."""
        return f"{self.run}/{self.attempt}/{self.kind}/{self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """An alert and the sinks that its labels lead to (none: silenced, or no route)."""

    alert: Alert
    sinks: tuple[str, ...]
    not_before: float | None = None
    """Unix time at which quiet hours end."""
    cool_down_s: float = 0.0
    """Sinks that were told of the same failure of the same job within this time are left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A line of the journal: what was decided of a run, kept beside it in the store."""

    kind: str
    body: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """Alerts whose labels match all of `match` are kept back until `until` (None: for good)."""

    id: str
    match: Mapping[str, str]
    until: float | None = None
    why: str = ""
    created_at: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What the inventory and the user say about one job and its alerts."""

    job: Job
    alerts: AlertsSpec = field(default_factory=AlertsSpec)
    silences: tuple[Silence, ...] = ()
    quiet_until: float | None = None
    """Unix time at which the quiet hours of now end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """All that is known of one run; `store.view(run)` loads it."""

    run: Run
    attempts: tuple[Attempt, ...] = ()
    incidents: tuple[Incident, ...] = ()
    """Of this run, oldest first, whatever their state."""
    stop_reason: str | None = None
    """HUMAN or STOP_ON once a stop was decided for the present attempt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What changes and what is to be done; whole new values, not differences."""

    run: Run
    attempts: tuple[Attempt, ...] = ()
    incidents: tuple[Incident, ...] = ()
    """Opened or changed; of earlier runs of the job too, where they are resolved."""
    outgoing: tuple[Outgoing, ...] = ()
    actions: tuple[Action, ...] = ()
    done: frozenset[ActionKind] = frozenset()
    """Pending actions of the run whose result this decision is about."""
    cancel: frozenset[ActionKind] = frozenset()
    """Pending actions of the run that are not to be done any more."""
    notes: tuple[Note, ...] = ()


def after(view: RunView, decision: Decision) -> RunView:
    """The view once `decision` is stored, with no need to ask the store again."""
    attempts = {one.number: one for one in view.attempts}
    attempts |= {one.number: one for one in decision.attempts}
    incidents = {one.id: one for one in view.incidents}
    incidents |= {one.id: one for one in decision.incidents if one.run == view.run.id}
    stops = [action.reason for action in decision.actions if action.kind is ActionKind.STOP]
    launched = decision.run.attempt != view.run.attempt
    return RunView(
        run=decision.run,
        attempts=tuple(attempts[number] for number in sorted(attempts)),
        incidents=tuple(incidents.values()),
        stop_reason=stops[-1] if stops else (None if launched else view.stop_reason),
    )
