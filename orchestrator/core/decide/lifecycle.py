"""The state machine of a run: what is known + what happened -> a decision.

    pending -> starting -> running -> finished | failed | lost
                  ^            `-> backoff -'                     (restart policy)
    any of them -> stopping -> stopped | failed                   (a person; watch.stop_on)

An attempt is over when its verdict comes, which follows its Exited or RelayGone. A person's word
beats the policy. Every decision can be reached twice: ids and keys follow from what is known.
Must not: do anything, or read a clock.
"""

from orchestrator.core.decide.decision import Decision, Policy, RunView
from orchestrator.core.decide.desk import Desk
from orchestrator.core.decide.inputs import (
    Accepted,
    AckAsked,
    BackoffOver,
    FindingSeen,
    Input,
    Launched,
    LaunchFailed,
    PolicyChanged,
    ReminderDue,
    StopAsked,
    StopDone,
    VerdictReached,
)
from orchestrator.core.events import Exited, RelayGone, SessionChanged


def decide(view: RunView, event: Input, policy: Policy, now: float) -> Decision:  # noqa: C901, PLR0912  one exhaustive match is the point
    """What follows from an event; a decision that changes nothing where nothing follows."""
    desk = Desk(view, policy, now)
    match event:
        case Accepted():
            desk.accepted()
        case Launched():
            desk.launched(event)
        case LaunchFailed():
            desk.not_started(event.text)
        case BackoffOver():
            desk.backoff_over(event.attempt)
        case PolicyChanged():
            desk.policy_changed()
        case StopAsked():
            desk.stop_asked(event.grace_s)
        case StopDone():
            desk.stop_done()
        case Exited():
            record = event.record
            desk.attempt_ended(record.ended_at, record.code, record.signal, record.started_at)
        case RelayGone():
            desk.attempt_ended(event.at, None, None, None)
        case FindingSeen():
            desk.finding_seen(event)
        case VerdictReached():
            desk.verdict_reached(event)
        case AckAsked():
            desk.acknowledged(event.incident)
        case ReminderDue():
            desk.reminded(event.incident, event.due_s)
        case SessionChanged():
            desk.note("session.changed", detached=event.detached)
    return desk.decision()
