"""What becomes of what was declared: runs and their attempts, incidents, alerts."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from orchestrator.core.model.declared import Target, empty


class RunState(StrEnum):
    """Where a run stands; the last four are ends."""

    PENDING = "pending"
    STARTING = "starting"
    RUNNING = "running"
    BACKOFF = "backoff"
    STOPPING = "stopping"
    FINISHED = "finished"
    FAILED = "failed"
    STOPPED = "stopped"
    LOST = "lost"

    @property
    def ended(self) -> bool:
        """Whether nothing more will happen to the run."""
        return self in ENDS


ENDS = frozenset({RunState.FINISHED, RunState.FAILED, RunState.STOPPED, RunState.LOST})


class LinkState(StrEnum):
    """What we see of a target; never a state of a run."""

    CONNECTED = "connected"
    DEGRADED = "degraded"
    UNREACHABLE = "unreachable"


class Severity(StrEnum):
    """How loud a finding or an alert is."""

    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """An immutable deployed tree: `WORKDIR/releases/<digest>/<package name>/`."""

    digest: str
    path: str
    """Of the package's folder on the target; the command's working folder."""
    files: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitRecord:
    """How an attempt's program ended, as its relay saw it; times are unix seconds."""

    code: int | None
    signal: int | None
    started_at: float
    ended_at: float
    boot_id: str = ""
    log_bytes: int = 0
    raw: int | None = None
    """Only from `attempt.sh`, where a code above 128 may have been a signal."""
    oom_kills: int | None = None
    """Processes of the relay's cgroup that the kernel killed for memory meanwhile."""
    memory_limit_bytes: int | None = None
    """Of that cgroup; None where there is none, or nobody looked."""
    awaited: bool = False
    """The relay alerts itself unless it hears that this end is stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSample:
    """One GPU at one time; None where the driver does not say."""

    index: int
    uuid: str | None = None
    name: str | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    utilization_percent: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    processes: tuple[Mapping[str, Any], ...] = ()
    """Each: pid, memory_bytes, and where known start, container, container_pid, command, run.

    `start` is in clock ticks since boot: with the PID it names a process for good.
    """
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Clocks, throttle reasons, ECC, rows, links: present where read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One process life inside a run, numbered from 1."""

    number: int
    directory: str
    """On the target."""
    started_at: float | None = None
    ended_at: float | None = None
    exit_code: int | None = None
    signal: int | None = None


RESTART = "restart"
"""Key of a run's verdict: what follows from it (`said`), when (`at`), by which policy (`by`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One requested execution of a job with one release."""

    id: str
    """JOB-N."""
    uid: str
    """Random; makes the run's folder unique on a target shared by several state folders."""
    job: str
    target: str
    number: int
    state: RunState
    attempt: int
    session: str
    directory: str
    """On the target: WORKDIR/runs/<id>.<uid>."""
    release: str | None = None
    why: str = ""
    created_at: float = 0.0
    started_at: float | None = None
    ended_at: float | None = None
    exit_code: int | None = None
    signal: int | None = None
    step: int | None = None
    loss: float | None = None
    phase: str | None = None
    metrics: Mapping[str, Any] = field(default_factory=dict)
    """Newest value of every metric, and `output_at`, when the last byte was seen."""
    verdict: Mapping[str, Any] | None = None
    """Verdict.to_json() of the newest attempt that ended; `restart` in it, what follows from it."""
    incident: str | None = None
    forced: bool = False
    host: str = ""
    """Whose lease allows to drive it, where several daemons share a fleet."""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=empty)
    whereabouts: Target | None = None
    """Its target as it was where the run is; None of a run that an older orch stored."""


def number_of(run: str) -> int:
    """N of a run's id JOB-N; 0 where it is none."""
    number = run.rpartition("-")[2]
    return int(number) if number.isdecimal() and number.isascii() else 0


class IncidentState(StrEnum):
    """Whether somebody still has to care."""

    OPEN = "open"
    ACKNOWLEDGED = "acknowledged"
    RESOLVED = "resolved"


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """The time one fingerprint is open on one run."""

    id: str
    run: str
    attempt: int
    fingerprint: str
    family: str | None
    signature: str
    severity: Severity
    title: str
    state: IncidentState
    opened_at: float
    updated_at: float
    resolved_at: float | None = None
    occurrences: int = 1
    same_as: str | None = None
    """The earliest run of the job with the same fingerprint or family, where there is one."""
    finding: Mapping[str, Any] = field(default_factory=dict)
    """Finding.to_json() or Verdict.to_json(): traceback, thread, evidence, next steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """A message about an incident; body in Alertmanager's words is made by the sink."""

    id: str
    """Stable: the receiver's `webhook-id`."""
    incident: str
    status: str
    """`firing` or `resolved`."""
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    starts_at: float
    ends_at: float | None
    fingerprint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One alert on its way to one sink."""

    id: str
    alert: Alert
    sink: str
    attempts: int
    next_at: float
    state: str
    """`pending`, `delivered`, `disabled` (the receiver answered 410)."""
    error: str | None = None
    created_at: float = 0.0
    """Where `next_at` of an untried one is later, it is kept back on purpose until then."""
    digest: str | None = None
    """Id of the message that it shares with others, where there were too many for one each."""
