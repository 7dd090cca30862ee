"""What the GPUs of a run say of themselves: faults, and one that holds all others up; pure.

Owns what of them is worth a finding. Whose a GPU is and what the kernel says of it are kernel.py's.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from orchestrator.core.detect.fingerprint import fingerprint
from orchestrator.core.findings import Finding, Role
from orchestrator.core.model import GpuSample, Severity
from orchestrator.core.parse.gpu_notes import throttles
from orchestrator.core.parse.kernel_log import KernelEvent, KernelEventKind
from orchestrator.core.watch import advice
from orchestrator.core.watch.activity import BUSY_WATTS_PART
from orchestrator.core.watch.xid import LOG_ONLY, XidClass, xid_class, xid_meaning, xid_title

ROUNDS = 15
"""Half a minute of samples, so that no single step decides."""
FEWEST = 2
BUSY_PERCENT = 95.0
LATE_PERCENT = 70.0
SLOW_PART = 0.8
MOST_XIDS = 100
"""Of each GPU the newest: a program may meet the same one at each step, for days."""
_POWER_CAP = 0x4


@dataclass(frozen=True, slots=True)
class _Round:
    percent: float
    clock_mhz: float | None
    reasons: int
    power_part: float | None
    """Of what it may draw."""


class Cards:
    """The GPUs of one attempt, round by round; each thing is told once."""

    def __init__(self, since: float) -> None:
        """`since`: when the attempt started; a driver tells of an Xid also long after it."""
        self._since = since
        self._own: set[int] = set()
        self._rounds: dict[int, deque[_Round]] = {}
        self._names: dict[int, str | None] = {}
        self._uncorrected: dict[int, int] = {}
        self._xids: dict[int, deque[KernelEvent]] = {}
        self._xid_told: dict[int, KernelEvent] = {}
        self._told: set[tuple[str, int]] = set()

    def take(
        self, samples: Sequence[GpuSample], own: frozenset[int], *, stepping: bool = True
    ) -> list[Finding]:
        """What is new with one more round of samples; `own` are indexes of the run's GPUs now.

        A GPU stays the run's: one that is lost tells of no process any more. `stepping`: the run
        is at its steps; else one rank may rightly be at work for all.
        """
        self._own |= own
        self.hear(samples)
        found = [one for sample in samples for one in self._faults(sample)]
        if not stepping:
            self._rounds.clear()
            return found
        for sample in samples:
            self._note(sample)
        return [*found, *self._late(), *self._slow()]

    @property
    def own(self) -> frozenset[int]:
        """Indexes of the GPUs that the run was seen on."""
        return frozenset(self._own)

    def hear(self, samples: Iterable[GpuSample]) -> None:
        """Remember the Xids that the driver told of, for where the kernel's log is not seen."""
        for one in samples:
            number, at = one.extra.get("xid"), one.extra.get("xid_at")
            if number is None or at is None or at < self._since:
                continue
            heard = self._xids.setdefault(one.index, deque(maxlen=MOST_XIDS))
            if all((event.xid, event.at) != (number, at) for event in heard):
                kind, meaning = xid_class(number), xid_meaning(number)
                text = f"Xid {number} ({kind}) on GPU {one.index}: {meaning}"
                pci = one.extra.get("pci")
                heard.append(
                    KernelEvent(kind=KernelEventKind.XID, text=text, at=at, xid=number, pci=pci)
                )

    def told_by_driver(self) -> tuple[KernelEvent, ...]:
        """Xids of the run's GPUs, oldest first, as the kernel's log would tell them.

        Of all GPUs that are seen where it is not known which are the run's. One stays known that
        the driver tells of no more: whoever asks it may have begun anew since.
        """
        own = self._own or self._xids.keys()
        heard = [event for index in self._xids if index in own for event in self._xids[index]]
        return tuple(sorted(heard, key=lambda event: event.at or 0.0))

    def _faults(self, sample: GpuSample) -> list[Finding]:
        index, extra = sample.index, sample.extra
        if index not in self._own:
            return []
        found = []
        if extra.get("error") and self._is_new("lost", index):
            found.append(_fault(xid_meaning(79), f"GPU {index}: {extra['error']}"))
        count = extra.get("ecc_uncorrected")
        if isinstance(count, int):
            before = self._uncorrected.setdefault(index, count)
            self._uncorrected[index] = count
            if count > before:
                text = f"GPU {index}: {count - before} more uncorrected ECC errors, {count} in all"
                found.append(_fault("an uncorrected ECC error of the card's memory", text))
        found += self._heard(index)
        rows = extra.get("remapped_rows")
        if rows and rows[3] and self._is_new("remap", index):
            found.append(_fault(xid_meaning(64), f"GPU {index}: {xid_meaning(64)}"))
        return found

    def _heard(self, index: int) -> list[Finding]:
        """The newest Xid of a GPU where it is new; a program's own fault it will tell itself."""
        heard = self._xids.get(index)
        if not heard or heard[-1] is self._xid_told.get(index):
            return []
        newest = self._xid_told[index] = heard[-1]
        if newest.xid is None or xid_class(newest.xid) is XidClass.APPLICATION:
            return []
        return [_fault(xid_title(newest.xid), newest.text, noted=newest.xid in LOG_ONLY)]

    def _note(self, sample: GpuSample) -> None:
        if sample.index not in self._own or sample.utilization_percent is None:
            return
        rounds = self._rounds.setdefault(sample.index, deque(maxlen=ROUNDS))
        self._names[sample.index] = sample.name
        rounds.append(
            _Round(
                sample.utilization_percent,
                sample.extra.get("sm_clock_mhz"),
                int(sample.extra.get("throttle_reasons") or 0),
                _power_part(sample),
            )
        )

    def _alike(self) -> dict[int, deque[_Round]] | None:
        """The run's GPUs with rounds enough, where all are of one kind and there are enough."""
        full = {index: rounds for index, rounds in self._rounds.items() if len(rounds) == ROUNDS}
        kinds = {self._names[index] for index in full}
        return (
            full if len(full) >= FEWEST and full.keys() == self._own and len(kinds) == 1 else None
        )

    def _late(self) -> list[Finding]:
        """One is idle in part while all others wait for it, which counts as busy."""
        alike = self._alike() or {}
        percents = {index: median(one.percent for one in alike[index]) for index in alike}
        late = [index for index, percent in percents.items() if percent < LATE_PERCENT]
        waiting = [index for index, percent in percents.items() if percent >= BUSY_PERCENT]
        if len(late) != 1 or len(waiting) != len(percents) - 1:
            return []
        if len(waiting) == 1 and not _waits(alike[waiting[0]]):
            # Of two that differ either may be the odd one; one that is busy and cold waits.
            return []
        if not self._is_new("late", late[0]):
            return []
        least = min(percents[index] for index in waiting)
        text = (
            f"GPU {late[0]} is busy {percents[late[0]]:.0f} % of the time,"
            f" {_others(len(waiting))} {least:.0f} % or more and waiting for its rank"
        )
        return [_straggler(text, "late")]

    def _slow(self) -> list[Finding]:
        """One runs at lower clocks than all others, which do not wait for power."""
        alike = self._alike() or {}
        if any(one.clock_mhz is None for rounds in alike.values() for one in rounds):
            return []
        clocks = {index: median(one.clock_mhz or 0.0 for one in alike[index]) for index in alike}
        for index, clock in clocks.items():
            others = [other for at, other in clocks.items() if at != index]
            if len(others) == 1 and not throttles(alike[index][-1].reasons):
                continue
            if clock >= SLOW_PART * min(others) or self._is_capped(alike[index]):
                continue
            if self._idles(alike) or not self._is_new("slow", index):
                continue
            why = ", ".join(throttles(alike[index][-1].reasons)) or "no reason told"
            text = (
                f"GPU {index} runs at {clock:.0f} MHz, {_others(len(others))} at"
                f" {min(others):.0f} MHz or more ({why})"
            )
            return [_straggler(text, "slow")]
        return []

    def _is_capped(self, rounds: deque[_Round]) -> bool:
        """Whether it works so much more than the others that its power is what limits it."""
        return bool(rounds[-1].reasons & _POWER_CAP) and not throttles(rounds[-1].reasons)

    def _idles(self, alike: Mapping[int, deque[_Round]]) -> bool:
        """A GPU without work lowers its clocks by itself."""
        return any(
            median(one.percent for one in rounds) < LATE_PERCENT for rounds in alike.values()
        )

    def _is_new(self, what: str, index: int) -> bool:
        new = (what, index) not in self._told
        self._told.add((what, index))
        return new


def _others(count: int) -> str:
    return "the other" if count == 1 else f"the {count} others"


def _power_part(sample: GpuSample) -> float | None:
    limit_w = sample.extra.get("power_limit_w")
    return sample.power_w / limit_w if sample.power_w is not None and limit_w else None


def _waits(rounds: Iterable[_Round]) -> bool:
    """Whether a busy GPU draws no more than one that spins in a collective."""
    parts = [one.power_part for one in rounds if one.power_part is not None]
    return bool(parts) and median(parts) < BUSY_WATTS_PART


def _fault(title: str, text: str, *, noted: bool = False) -> Finding:
    return Finding(
        signature="gpu_fault",
        role=Role.ROOT,
        line=0,
        text=text,
        severity=Severity.WARNING if noted else Severity.CRITICAL,
        transient=False,
        family="gpu_fault",
        fingerprint=fingerprint(
            signature="gpu_fault", exception=None, frame=None, in_app_frame=None, text=title
        ),
        title=title,
    )


def _straggler(text: str, same: str) -> Finding:
    known = advice.of(advice.STRAGGLER)
    return Finding(
        signature=known.id,
        role=Role.ROOT,
        line=0,
        text=text,
        severity=known.severity,
        transient=known.transient,
        family=known.id,
        fingerprint=fingerprint(
            signature=known.id, exception=None, frame=None, in_app_frame=None, text=same
        ),
        title=known.title,
    )
