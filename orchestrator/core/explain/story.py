"""What is known of an incident, as values; gathers nothing."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from orchestrator.core.model import Attempt, Incident, Run

KINDS = ("cache", "code", "configuration", "environment")


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One thing that is not what it was."""

    kind: str
    """One of KINDS."""
    name: str
    text: str
    """`triton 3.6 -> 3.5`."""
    alarming: bool = False
    """Said first: a cache that shrank, say."""

    def to_json(self) -> dict[str, Any]:
        """As the API gives it."""
        return {
            "kind": self.kind,
            "name": self.name,
            "text": self.text,
            "alarming": self.alarming,
        }


def ordered(changes: Iterable[Change]) -> list[Change]:
    """What matters most first."""
    return sorted(changes, key=lambda one: (not one.alarming, KINDS.index(one.kind)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Occurrence:
    """An earlier run of the job, and what it died of, where it did."""

    run: Run
    incident: Incident | None
    """Its newest one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """Everything that an explanation is made of."""

    run: Run
    incident: Incident
    earlier: tuple[Occurrence, ...]
    """The job's runs before this one, oldest first."""
    good: Run | None
    """The newest of them that finished."""
    later: Run | None
    """The first run after this one that finished; told where there is no good one before."""
    changes: tuple[Change, ...]
    """From the last good run to this one."""
    attempts: tuple[Attempt, ...] = ()
    """Of the run, first one first."""
    stop_reason: str | None = None
    """Why orch ended the run's newest attempt, where it did: `human` or `stop_on`."""
    unknown: tuple[str, ...] = ()
    """Kinds of changes that could not be looked at, each with the reason."""
