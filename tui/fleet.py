"""The state of the fleet as the daemon last told it: whole snapshots with changes laid over them.

Pure. It owns how a change is merged and what the dashboard remembers of a run's course; it knows
no widgets and no sockets.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from orchestrator.api.messages import DaemonView, IncidentView, RunView, Snapshot, TargetView

MAX_POINTS = 240
LIVE = frozenset({"pending", "starting", "running", "backoff", "stopping"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Targets, runs and incidents by their keys."""

    at: float
    daemon: DaemonView
    targets: Mapping[str, TargetView]
    runs: Mapping[str, RunView]
    incidents: Mapping[str, IncidentView]

    @classmethod
    def of(cls, snapshot: Snapshot) -> "Fleet":
        """The fleet of a whole snapshot."""
        return cls(
            at=snapshot["at"],
            daemon=snapshot["daemon"],
            targets={one["name"]: one for one in snapshot["targets"]},
            runs={one["id"]: one for one in snapshot["runs"]},
            incidents={one["id"]: one for one in snapshot["incidents"]},
        )

    def merged(self, change: Snapshot) -> "Fleet":
        """The fleet with what changed; views that did not change stay the same objects."""
        new = Fleet.of(change)
        return replace(
            new,
            targets={**self.targets, **new.targets},
            runs={**self.runs, **new.runs},
            incidents={**self.incidents, **new.incidents},
        )

    def newest_run(self) -> RunView | None:
        """The run that was asked for last."""
        return max(self.runs.values(), key=lambda run: run["created_at"], default=None)

    def open_incidents(self, run: str | None = None) -> list[IncidentView]:
        """Incidents somebody has to care about, newest first."""
        found = [
            one
            for one in self.incidents.values()
            if one["state"] != "resolved" and run in {None, one["run"]}
        ]
        return sorted(found, key=lambda one: -one["opened_at"])

    def alarms(self, run: str | None = None) -> list[IncidentView]:
        """Those of the open incidents that nobody has taken note of."""
        return [one for one in self.open_incidents(run) if one["state"] == "open"]

    def incident_of(self, run: RunView) -> IncidentView | None:
        """The incident to show for a run: the newest open one, else the one that it names."""
        found = self.open_incidents(run["id"])
        return found[0] if found else self.incidents.get(run["incident"] or "")

    def gpus_of(self, run: str) -> list[dict[str, Any]]:
        """GPUs on which the run has a process."""
        return [
            gpu
            for target in self.targets.values()
            for gpu in target["gpus"]
            if any(one.get("run") == run for one in gpu.get("processes") or ())
        ]

    def jobs(self) -> list[str]:
        """Names of the inventory's jobs, then of those that only runs still know."""
        names = [str(job["name"]) for job in self.daemon.get("jobs", ())]
        names += [run["job"] for run in self.runs.values()]
        return list(dict.fromkeys(names))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What the dashboard sees at a moment: the fleet, and whether the daemon still tells it."""

    now: float
    fleet: Fleet | None = None
    connected: bool = False
    told_at: float | None = None
    """When the daemon was heard last."""
    reason: str = ""
    """Why it is not connected."""
    courses: Mapping[str, "Course"] = field(default_factory=lambda: MappingProxyType({}))


class Course:
    """The newest losses and steps of one run, for a small picture and for its speed."""

    def __init__(self) -> None:
        self.losses: deque[tuple[int, float | None]] = deque(maxlen=MAX_POINTS)
        self.steps: deque[tuple[float, int]] = deque(maxlen=MAX_POINTS)

    def note(self, run: RunView) -> None:
        """Take a run's newest view."""
        step, at = run["step"], run["output_at"]
        if step is None:
            return
        if self.losses and self.losses[-1][0] > step:
            self.losses.clear()  # it went back to a checkpoint
            self.steps.clear()
        if run["loss"] is not None and (not self.losses or self.losses[-1][0] != step):
            self.losses.append((step, run["loss"]))
        if at is not None and (not self.steps or self.steps[-1][1] != step):
            self.steps.append((at, step))

    def backfill(self, metrics: Iterable[Mapping[str, Any]]) -> None:
        """Put what the daemon stored in front of what was seen here."""
        seen = self.losses[0][0] if self.losses else None
        older: list[tuple[int, float | None]] = [
            (line["step"], line["loss"])
            for line in metrics
            if "loss" in line and isinstance(line.get("step"), int)
        ]
        older = [point for point in older if seen is None or point[0] < seen]
        self.losses = deque([*older, *self.losses], maxlen=MAX_POINTS)

    def steps_per_s(self) -> float | None:
        """Speed over what was seen here; None before two steps of it."""
        if len(self.steps) < 2:
            return None
        (first_at, first), (last_at, last) = self.steps[0], self.steps[-1]
        return (last - first) / (last_at - first_at) if last_at > first_at else None
