"""The nouns of orch as frozen values; no IO, no behaviour beyond small derivations."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any


def _empty() -> Mapping[str, str]:
    """A mapping with nothing in it; a shared default is refused by Python 3.11's dataclasses."""
    return MappingProxyType({})


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


# --- what the inventory declares ---------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A machine reached by SSH, or this one (`transport: local`)."""

    name: str
    transport: str = "ssh"
    hostname: str | None = None
    """None: the name itself, as `ssh NAME` would resolve it."""
    port: int | None = None
    user: str | None = None
    identity_file: str | None = None
    """Absolute, `~` expanded."""
    known_hosts: str | None = None
    proxy_jump: str | None = None
    become: str = "none"
    """`none` or `sudo`."""
    runtime_path: str | None = None
    """Where the runtime's program is, when it is not in the PATH of a plain ssh command."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where a command runs: a host and, optionally, a container on it."""

    name: str
    host: Host
    runtime: str = "none"
    container: str | None = None
    user: str = "root"
    """Who runs inside the container."""
    tmux_socket: str | None = None
    """None: the default socket, so that plain `tmux attach` works."""
    python: str | None = None
    """Interpreter for probe and job; its folder comes first in PATH. None: python3."""
    labels: Mapping[str, str] = field(default_factory=_empty)

    @property
    def python_folder(self) -> str | None:
        """Folder of `python`, which comes first in PATH; None where that is a plain name."""
        return (self.python or "").rpartition("/")[0] or None


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """How a release's environment is made, once per digest of these inputs."""

    python: str = "python3"
    requirements: str | None = None
    system_site_packages: bool = False
    run: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PreflightPolicy:
    """What must be true of a target before a launch."""

    gpus_idle: bool = False
    stale_processes: str = "refuse"
    """`refuse`, `stop` or `ignore`."""
    min_free_disk_bytes: int | None = None
    ports: tuple[int, ...] = ()
    """On which the job will listen; that of MASTER_PORT is among them by itself."""
    data_paths: tuple[str, ...] = ()
    """Files and folders on the target that the job reads."""
    packages: Mapping[str, str] = field(default_factory=_empty)
    """Distribution name -> version specifier (PEP 440)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchPolicy:
    """What is watched while a run lives."""

    start_within_s: float | None = None
    output_within_s: float | None = None
    metrics: Mapping[str, str] = field(default_factory=_empty)
    """Name -> regular expression with a group `value`."""
    expect: tuple[str, ...] = ()
    stop_on: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartPolicy:
    """When an attempt that failed is followed by another."""

    on: tuple[str, ...] = ()
    """Signature ids or groups: infra, cuda_ecc, interruption."""
    max_attempts: int = 1
    within_s: float = 21_600.0
    backoff_s: float = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Adoption:
    """What somebody else started, to be followed and never launched."""

    what: str
    """A pane of tmux (`%3`), or a PID."""
    take_pipe: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What the inventory wants running."""

    name: str
    targets: tuple[Target, ...]
    command: str | tuple[str, ...]
    """A string for `sh -c 'exec ...'`, or argv run as it is."""
    workdir: str
    """Absolute, on the target."""
    package: str | None = None
    """Absolute folder here that is shipped; None: nothing is."""
    exclude: tuple[str, ...] = ()
    setup: Setup | None = None
    session: str = ""
    """tmux session; the job's name unless said otherwise."""
    env: Mapping[str, str] = field(default_factory=_empty)
    secrets: tuple[str, ...] = ()
    preflight: PreflightPolicy = field(default_factory=PreflightPolicy)
    watch: WatchPolicy = field(default_factory=WatchPolicy)
    restart: RestartPolicy = field(default_factory=RestartPolicy)
    shared: tuple[str, ...] = ()
    wheelhouse: str | None = None
    keep: int = 5
    """Releases that `prune` leaves."""
    adopts: Adoption | None = None
    """None, but where a run was adopted."""
    retold: bool = False
    """Of a run that was rebuilt and had ended before: what is found of it was told long ago."""

    @property
    def target(self) -> Target:
        """The first target, where the run's session lives."""
        return self.targets[0]

    def target_named(self, name: str) -> Target:
        """The target of a run, or the first one where the inventory has changed since."""
        return next((one for one in self.targets if one.name == name), self.target)


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkSpec:
    """Where alerts go; addresses and secrets are names of environment variables."""

    name: str
    type: str
    """`webhook`, `apprise` or `command`."""
    url_env: str | None = None
    secret_env: str | None = None
    format: str = "alertmanager"
    """`alertmanager` or `cloudevents` (webhook only)."""
    command: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Alerts whose labels match all of `match` go to `to`; an empty match takes all."""

    match: Mapping[str, str] = field(default_factory=_empty)
    to: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertsSpec:
    """The `alerts:` part of an inventory."""

    sinks: tuple[SinkSpec, ...] = ()
    routes: tuple[Route, ...] = ()
    silences: tuple[Mapping[str, str], ...] = ()
    heartbeat_url_env: str | None = None
    remind_s: float | None = None
    """An incident that nobody acknowledged is told again each time this has passed."""
    cool_down_s: float = 0.0
    """The same failure of the same job opens no second alert within this time."""
    quiet_hours: tuple[int, int] | None = None
    """Minutes of the day, in the daemon's local time: what is not critical waits for their end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """A whole inventory file, checked; nobody re-checks it."""

    path: str
    """Real path of the file."""
    digest: str
    """SHA-256 of its bytes, hex."""
    hosts: Mapping[str, Host]
    targets: Mapping[str, Target]
    jobs: Mapping[str, Job]
    alerts: AlertsSpec = field(default_factory=AlertsSpec)
    rules: tuple[Mapping[str, Any], ...] = ()
    """User rules as written; core.detect.signatures.parse_rule reads them."""


# --- what happens --------------------------------------------------------------------------------


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
    """Verdict.to_json() of the newest attempt that ended."""
    incident: str | None = None
    forced: bool = False
    host: str = ""
    """Whose lease allows to drive it, where several daemons share a fleet."""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=_empty)


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
