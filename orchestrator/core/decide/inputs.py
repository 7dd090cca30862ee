"""What `decide` is told besides events of observing: people's words, results of actions, findings.

Must not: conclude anything.
"""

from dataclasses import dataclass

from orchestrator.core.events import Exited, RelayGone, SessionChanged
from orchestrator.core.findings import Finding, Verdict
from orchestrator.core.model import Incident


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """A person asked for the run, its package is there, and preflight has passed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launched:
    """The relay of the run's present attempt has started the program."""

    directory: str
    started_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchFailed:
    """The attempt could not be started; `text` says why."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BackoffOver:
    """The time of a RELAUNCH has come."""

    attempt: int
    """The one that is to begin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyChanged:
    """The job's restart policy was edited, or may have been while no daemon was there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopAsked:
    """A person asked for the run's end."""

    grace_s: float = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StopDone:
    """A STOP was carried out; a launched attempt still ends by its Exited or RelayGone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingSeen:
    """Detection found something in the output of the present attempt."""

    finding: Finding
    cause: str = ""
    next_steps: tuple[str, ...] = ()
    same_as: str | None = None
    """`store.incidents.earlier(...)`: the earliest earlier run of the job with the same."""
    told: str | None = None
    """The message under which the relay itself has told of the attempt's end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictReached:
    """How the present attempt ended; follows every Exited and RelayGone, also after a restart."""

    verdict: Verdict
    same_as: str | None = None
    unresolved: tuple[Incident, ...] = ()
    """`store.incidents.unresolved_of_job(job)`: what a run that finishes resolves."""
    raw: int | None = None
    """A shell's word for the end, where it was a code or a signal and nobody can tell which."""
    told: str | None = None
    """As in FindingSeen."""
    gone: str | None = None
    """RelayGone's reason, where that was the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AckAsked:
    """A person has taken note of an incident of this run."""

    incident: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReminderDue:
    """An incident of this run is still open, and nobody has acknowledged it."""

    incident: str
    due_s: int
    """Seconds after it was opened; stays what it is where `remind` is edited."""


Input = (
    Accepted
    | Launched
    | LaunchFailed
    | BackoffOver
    | PolicyChanged
    | StopAsked
    | StopDone
    | FindingSeen
    | VerdictReached
    | AckAsked
    | ReminderDue
    | Exited
    | RelayGone
    | SessionChanged
)

SAID = (PolicyChanged, StopAsked, AckAsked, ReminderDue)
"""What nothing shows a second time; to hear it twice changes nothing."""
