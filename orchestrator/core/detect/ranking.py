"""Which one? Among findings that ended the work, the one that explains it.

Owns the order of causes: a named one before lost peers, those before bare reports of an end.
"""

from collections.abc import Sequence

from orchestrator.core.detect.afterwards import Life, Sign
from orchestrator.core.detect.sighting import Sighting
from orchestrator.core.detect.survival import may_end
from orchestrator.core.findings import Finding

_TIERS = {
    "elastic_child_failed": 5,
    "interrupted": 4,
    "nccl_timeout": 2,
    "nccl_error": 2,
}
_LOST_PEER = frozenset({"nccl_error", "rendezvous_or_port"})
"""What a rank says whose peer died, also while it still looked for it."""
_ABORT_TIER = 3
_ABORTS = frozenset({-6, 134})


class Ranking:
    """Chooses among the findings of one case."""

    def __init__(self, life: Life, sightings: Sequence[Sighting]) -> None:
        self._life = life
        self._sightings = sightings

    def root(self, fatal: Sequence[Sighting]) -> Sighting:
        """The earliest of the most telling ones, or what was seen earlier and explains them."""
        tiers = {id(item): _tier(item) for item in fatal}
        fatal = self._without_victims(fatal)
        best = min(tiers[id(item)] for item in fatal)
        first = fatal[0]
        if best >= 2:
            earlier = [s for s in self._sightings if s not in fatal and self._explains(s, first)]
            if earlier:
                return earlier[-1]
        table = next((s for s in fatal if s.exit_code is not None), None)
        strong = [item for item in fatal if tiers[id(item)] == best]
        if table is not None and len(strong) > 1:
            named = [s for s in strong if s.finding.rank == table.finding.rank and s is not table]
            strong = named or strong
        if _stopped_by_hand(first) and best == _ABORT_TIER:
            return first
        if (
            first.finding.signature == "interrupted"
            and strong[0].finding.signature == "python_error"
        ):
            return first
        return strong[0]

    def _without_victims(self, fatal: Sequence[Sighting]) -> Sequence[Sighting]:
        """Where a launcher names the rank that failed first and that one printed nothing: without
        the ranks that only lost their peer."""
        table = next((s for s in fatal if s.exit_code is not None and s.block), None)
        if table is None or any(_tier(s) < 2 for s in fatal if s is not table):
            return fatal
        lost = [
            s for s in fatal if s.finding.signature in _LOST_PEER and s.finding.rank is not None
        ]
        if lost and all(s.finding.rank != table.finding.rank for s in lost):
            return [s for s in fatal if s not in lost] or fatal
        return fatal

    def _explains(self, item: Sighting, end: Sighting) -> bool:
        """Whether something seen earlier, after which other ranks still printed, explains the end."""
        between = self._life.between(item.finding.last_line, end.finding.line)
        return (
            may_end(item)
            and not item.level
            and item.finding.line < end.finding.line
            and _tier(item) < 2
            and not any(sign in (Sign.RESTART, Sign.HANDLED, Sign.DONE) for sign in between)
        )


def _tier(item: Sighting) -> int:
    """How far from a cause a finding is: 0 names one, 2 lost a peer, 5 only reports an end."""
    signature = item.finding.signature
    if item.exit_code is not None and _only_code(item):
        by_code = {
            "segfault": _ABORT_TIER if item.exit_code in _ABORTS else 1,
            "host_oom": 1,
            "interrupted": 1,
        }
        return by_code.get(signature, _TIERS.get(signature, 0))
    if _by_abort(item.finding):
        return _ABORT_TIER
    if item.block and signature == "python_error" and item.finding.exception is None:
        return 3
    return _TIERS.get(signature, 0) + (1 if item.level and item.block else 0)


def _stopped_by_hand(item: Sighting) -> bool:
    """Whether somebody pressed Ctrl-C; a SIGTERM may be the launcher's, for another rank's sake."""
    exception = item.finding.exception
    return exception is not None and exception.type == "KeyboardInterrupt"


def _by_abort(finding: Finding) -> bool:
    """Whether it is an abort, by which native code ends itself after an error told elsewhere."""
    if finding.signature != "segfault" or "egmentation" in finding.text:
        return False
    return finding.frame is None or "Aborted" in finding.text


def _only_code(item: Sighting) -> bool:
    """Whether a launcher's report is all there is: an exit code, no exception of the worker's."""
    exception = item.finding.exception
    return exception is None or exception.type.rpartition(".")[2] == "ChildFailedError"
