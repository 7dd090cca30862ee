"""Which keys an inventory has, and which kind of value (values.py) each of them takes.

Says nothing of how the parts fit together. The JSON Schema for editors is generated from these
classes, so their docstrings and `Field` texts are what a person sees while typing.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from orchestrator.core.inventory.values import (
    NOTHING_IS_A_LIST,
    NOTHING_IS_A_MAPPING,
    AbsolutePath,
    Command,
    Duration,
    Expectation,
    InsidePath,
    Metric,
    Name,
    Port,
    PositiveInt,
    QuietHours,
    Session,
    SharedFolders,
    Size,
    Specifier,
    Text,
    Variable,
)

RUNTIMES = ("none", "pct", "lxc", "incus", "lxd", "docker", "podman")


class Shape(BaseModel):
    """What every part has in common: unknown keys and wrong types are refused."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class HostShape(Shape):
    """A machine reached by SSH, or this one (`transport: local`)."""

    transport: Literal["ssh", "local"] = "ssh"
    hostname: Text | None = Field(None, description="Address; the host's own name when left out.")
    port: Port | None = None
    user: Text | None = None
    identity_file: str | None = Field(None, description="Private key; ~ is your home folder.")
    known_hosts: str | None = None
    proxy_jump: str | None = Field(None, description="Hosts to jump through, as ssh -J has them.")
    become: Literal["none", "sudo"] = "none"
    runtime_path: str | None = Field(None, description="The runtime's program, if not in PATH.")


class TargetShape(Shape):
    """Where a command runs: a host and, optionally, a container on it."""

    host: Text
    runtime: Literal["none", "pct", "lxc", "incus", "lxd", "docker", "podman"] = "none"
    container: Text | None = Field(None, description="Its id or name, as the runtime knows it.")
    user: Text = Field("root", description="Who runs inside the container.")
    tmux_socket: str | None = Field(None, description="Left out: plain `tmux attach` works.")
    python: str | None = Field(None, description="Interpreter; its folder comes first in PATH.")
    labels: dict[str, Text] = Field(default_factory=dict)


class SetupShape(Shape):
    """How a release's environment is made, once per digest of these inputs."""

    python: str = "python3"
    requirements: InsidePath | None = None
    system_site_packages: bool = False
    run: list[str] = Field(default_factory=list)


class PreflightShape(Shape):
    """What must be true of a target before a launch."""

    gpus_idle: bool = False
    stale_processes: Literal["refuse", "stop", "ignore"] = "refuse"
    min_free_disk: Size | None = None
    ports: list[Port] = Field(default_factory=list, description="Where the job will listen.")
    data_paths: list[AbsolutePath] = Field(
        default_factory=list, description="What the job reads on the target."
    )
    packages: dict[str, Specifier] = Field(default_factory=dict)


class WatchShape(Shape):
    """What is watched while a run lives."""

    start_within: Duration | None = None
    output_within: Duration | None = None
    metrics: dict[str, Metric] = Field(default_factory=dict)
    expect: list[Expectation] = Field(default_factory=list)
    stop_on: list[str] = Field(default_factory=list)


class RestartShape(Shape):
    """When an attempt that failed is followed by another."""

    on: list[str] = Field(default_factory=list, description="Signatures, or infra, cuda_ecc, ...")
    max_attempts: PositiveInt = 1
    within: Duration = 21_600.0
    backoff: Duration = 30.0


class JobShape(Shape):
    """What the inventory wants running."""

    target: Text | None = None
    targets: Annotated[list[Text], Field(min_length=1)] | None = None
    package: str | None = Field(None, description="Folder that is shipped, relative to this file.")
    exclude: list[str] = Field(default_factory=list)
    workdir: str = Field(description="Absolute folder on the target.")
    setup: SetupShape | None = None
    command: Command
    session: Session | None = Field(None, description="tmux session; the job's name if left out.")
    env: dict[Variable, Text] = Field(default_factory=dict)
    secrets: list[Variable] = Field(default_factory=list)
    preflight: PreflightShape = Field(default_factory=PreflightShape)
    watch: WatchShape = Field(default_factory=WatchShape)
    shared: SharedFolders = Field(default_factory=list)
    wheelhouse: str | None = Field(None, description="Folder of wheels, relative to this file.")
    restart: RestartShape = Field(default_factory=RestartShape)
    keep: PositiveInt = 5


class SinkShape(Shape):
    """Where alerts go; addresses and secrets are names of environment variables."""

    type: Literal["webhook", "apprise", "command"]
    url_env: Variable | None = None
    secret_env: Variable | None = None
    format: Literal["alertmanager", "cloudevents"] = "alertmanager"
    command: list[Text] = Field(default_factory=list)
    wrapper_alert: bool = Field(
        default=False, description="Runs tell of a bad end themselves where no daemon is there to."
    )


class RouteShape(Shape):
    """Alerts whose labels match all of `match` go to `to`."""

    match: dict[str, Text] = Field(default_factory=dict)
    to: list[Text]


class AlertsShape(Shape):
    """Sinks, and which alerts go to them."""

    sinks: dict[Name, SinkShape] = Field(default_factory=dict)
    routes: list[RouteShape] = Field(default_factory=list)
    silences: list[dict[str, Text]] = Field(default_factory=list)
    heartbeat_url_env: Variable | None = None
    remind: Duration | None = Field(
        default=None, description="Tell an open incident again after this."
    )
    cool_down: Duration = Field(default=0.0, description="A failure is told once in this time.")
    quiet_hours: QuietHours | None = Field(
        default=None, description="As 22:00-07:00, local: what is not critical waits for the end."
    )


class InventoryShape(Shape):
    """The hosts, targets and jobs of orch."""

    version: Literal[1]
    hosts: Annotated[
        dict[Name, Annotated[HostShape, NOTHING_IS_A_MAPPING]], NOTHING_IS_A_MAPPING
    ] = Field(default_factory=dict)
    targets: Annotated[dict[Name, TargetShape], NOTHING_IS_A_MAPPING] = Field(default_factory=dict)
    jobs: Annotated[dict[Name, JobShape], NOTHING_IS_A_MAPPING] = Field(default_factory=dict)
    alerts: Annotated[AlertsShape, NOTHING_IS_A_MAPPING] = Field(default_factory=AlertsShape)
    rules: Annotated[list[dict[str, Any]], NOTHING_IS_A_LIST] = Field(default_factory=list)


def json_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of an inventory, for editors."""
    schema = InventoryShape.model_json_schema()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": "orch inventory",
    }
