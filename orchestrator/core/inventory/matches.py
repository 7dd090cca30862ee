"""What a match of alerts may say: the labels there are, and the values that they can have.

A match that names nothing there is takes no alert for ever, and nobody hears of it. Loads no
shape: the daemon asks it of silences as well.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Self

from orchestrator.core.inventory.failures import BY_THEMSELVES, SIGNATURES
from orchestrator.core.model import Severity
from orchestrator.core.model.labels import LABELS

SIMULATION = "simulation"
"""The job that `orch simulate` plays."""

_NUMBER = re.compile(r"[0-9]*")
_ADHOC = re.compile(r"[@/]")


class Unknown(NamedTuple):
    """A word of a match that no alert has."""

    label: str
    text: str
    word: str
    choices: Collection[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """The names that alerts of an inventory have."""

    jobs: Collection[str]
    targets: Collection[str]
    hosts: Collection[str]
    rules: Collection[str]
    """Ids of the person's own rules."""
    own: Mapping[str, Collection[str]] = field(default_factory=dict)
    """Labels of targets, and the values that they have."""

    @classmethod
    def of(
        cls,
        *,
        jobs: Iterable[str],
        targets: Mapping[str, Mapping[str, str]],
        hosts: Iterable[str],
        rules: Iterable[str],
    ) -> Self:
        """The same from names, and from each target's labels."""
        own: dict[str, set[str]] = {}
        for labels in targets.values():
            for label, value in labels.items():
                own.setdefault(label, set()).add(value)
        return cls(
            jobs=sorted(jobs), targets=list(targets), hosts=list(hosts), rules=list(rules), own=own
        )

    def labels(self) -> frozenset[str]:
        """Every label that an alert may have."""
        return frozenset(LABELS) | frozenset(self.own)

    def unknown(self, match: Mapping[str, object]) -> Iterator[Unknown]:
        """What stands in a match and is in no alert; values that are no words are left alone."""
        for label, said in match.items():
            if label not in self.labels():
                yield Unknown(label, f"no alert has a label {label}", label, self.labels())
            elif isinstance(said, str | int) and not isinstance(said, bool):
                yield from self._value(label, str(said))

    def _value(self, label: str, value: str) -> Iterator[Unknown]:
        if label in {"attempt", "rank"}:
            if not _NUMBER.fullmatch(value):
                yield Unknown(label, f"the label {label} is a number, not {value}", value, ("0",))
            return
        choices, what = self._choices(label)
        word = value.rpartition("-")[0] if label == "run" else value
        # A target that is written in a command, with no inventory's word for it.
        adhoc = label in {"host", "target"} and _ADHOC.search(value)
        if word not in choices and not adhoc:
            yield Unknown(label, f"no {what} is named {value}", value, choices)

    def _choices(self, label: str) -> tuple[Collection[str], str]:
        jobs = (*self.jobs, SIMULATION)
        match label:
            case "alertname":
                return SIGNATURES | BY_THEMSELVES | frozenset(self.rules), "alert"
            case "severity":
                return tuple(Severity), "severity"
            case "host":
                return self.hosts, "host"
            case "target":
                return self.targets, "target"
            case "job":
                return jobs, "job"
            case "run":
                return jobs, "run of a job"
            case _:
                return self.own[label], f"{label} of a target"
