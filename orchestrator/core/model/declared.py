"""What an inventory declares: hosts, targets, jobs, and where alerts go."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any


def empty() -> Mapping[str, str]:
    """A mapping with nothing in it; a shared default is refused by Python 3.11's dataclasses."""
    return MappingProxyType({})


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
    labels: Mapping[str, str] = field(default_factory=empty)

    @property
    def python_folder(self) -> str | None:
        """Folder of `python`, which comes first in PATH; None where that is a plain name."""
        return (self.python or "").rpartition("/")[0] or None

    def to_json(self) -> dict[str, Any]:
        """The target with its host, without any secret: files of keys are named by their paths."""
        host = {one.name: getattr(self.host, one.name) for one in fields(self.host)}
        own = {one.name: getattr(self, one.name) for one in fields(self)}
        return {**own, "host": host, "labels": dict(self.labels)}

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> "Target":
        """What `to_json` gave, also that of another version; ValueError where it is none."""
        try:
            return cls(**{**_known_of(cls, said), "host": Host(**_known_of(Host, said["host"]))})
        except (AttributeError, KeyError, TypeError) as exc:
            raise ValueError(f"no target: {exc}") from exc


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
    packages: Mapping[str, str] = field(default_factory=empty)
    """Distribution name -> version specifier (PEP 440)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchPolicy:
    """What is watched while a run lives."""

    start_within_s: float | None = None
    output_within_s: float | None = None
    metrics: Mapping[str, str] = field(default_factory=empty)
    """Name -> regular expression with a group `value`."""
    expect: tuple[str, ...] = ()
    stop_on: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartPolicy:
    """When an attempt that failed is followed by another."""

    on: tuple[str, ...] = ()
    """Signature ids, `lost`, or groups: infra, cuda_ecc, interruption."""
    max_attempts: int = 1
    within_s: float = 21_600.0
    backoff_s: float = 30.0

    @property
    def words(self) -> str:
        """The whole policy as one text, by which another one is told from it."""
        return f"{self.max_attempts} in {self.within_s}, {self.backoff_s}: {' '.join(self.on)}"


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
    env: Mapping[str, str] = field(default_factory=empty)
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
    wrapper_alert: bool = False
    """Relays alert it themselves where no daemon took note of a bad end in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Alerts whose labels match all of `match` go to `to`; an empty match takes all."""

    match: Mapping[str, str] = field(default_factory=empty)
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


def _known_of(noun: type[Host] | type[Target], said: Mapping[str, Any]) -> dict[str, Any]:
    known = {one.name for one in fields(noun)}
    return {key: value for key, value in said.items() if key in known}
