"""The verbose status of NCCL's RAS service -> which ranks lag in which communicator.

Owns the lines of one mismatch. What else the service says is kept as text by others.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

_HEAD = re.compile(r"^#(?P<communicator>\S+) \((?P<hash>[0-9a-f]+)\)")
_COUNT = re.compile(r"^\s+Rank (?P<rank>\d+) has launched up to operation (?P<count>\d+)")
_WHICH = re.compile(r"different (?P<operation>\w+) operation counts")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """Ranks of one communicator that have launched fewer collectives than others."""

    communicator: str
    """NCCL's hash of it."""
    operation: str
    counts: Mapping[int, int]
    """Rank -> collectives launched, of the ranks that are told."""

    @property
    def ranks(self) -> tuple[int, ...]:
        """Those that are behind."""
        most = max(self.counts.values())
        return tuple(sorted(rank for rank, count in self.counts.items() if count < most))


def lags(text: str) -> tuple[Lag, ...]:
    """Each communicator whose ranks differ; none where all are alike, or nothing is told."""
    found: list[Lag] = []
    communicator, operation = "", ""
    counts: dict[int, int] = {}
    for line in [*text.splitlines(), "#end (0)"]:
        if head := _HEAD.match(line):
            if len(set(counts.values())) > 1:
                found.append(Lag(communicator=communicator, operation=operation, counts=counts))
            communicator, operation, counts = head["hash"], "", {}
        elif which := _WHICH.search(line):
            operation = which["operation"]
        elif told := _COUNT.match(line):
            counts[int(told["rank"])] = int(told["count"])
    return tuple(found)
