"""The streaming reader of a log: chunks of bytes in, findings out, one verdict at the end.

Owns the bytes: the cutting into lines, what is kept unread for want of budget, and which findings
were told. Memory is bounded whatever the input.
"""

import re
from collections.abc import Iterable, Sequence

from orchestrator.core.detect.classify import Classifier
from orchestrator.core.detect.matching import GENERIC
from orchestrator.core.detect.pace import Pace
from orchestrator.core.detect.prefilter import Prefilter, Rarities
from orchestrator.core.detect.signatures import Signature, load
from orchestrator.core.detect.verdict import Case, conclude
from orchestrator.core.detect.walk import Walk
from orchestrator.core.findings import Finding, Verdict
from orchestrator.core.model import ExitRecord
from orchestrator.core.parse.kernel_log import KernelEvent

SLAB_BYTES = 1 << 16
MAX_LINE_BYTES = 1 << 16
HELD_BYTES = 8 << 20
"""Kept together, once the budget of reading is spent, before parts of it are read."""
LAST_BYTES = 1 << 17
"""Read at a log's end, whatever the budget says: there stands why it ended."""
LAST_OF_HELD_BYTES = 1 << 11
LAST_OF_QUIET_BYTES = 1 << 14
_SLOW = re.compile(r"[.\])wdsS}][*+{]|\(\?i|\|\$|^\^|\$$")
"""Patterns with gaps and repeats: too slow to look for in all that is not read."""
MAX_TOLD = 1000
"""Findings of a silence that are remembered, so that none is told again when its block ends."""


class Engine:
    """Reads one attempt's log as it grows; `feed`, `quiet`, and `close` once."""

    def __init__(self, rules: Sequence[Signature] = (), app_roots: Sequence[str] = ()) -> None:
        signatures = (*rules, *load())
        self._classifier = Classifier(signatures, app_roots)
        self._pace = Pace(
            Rarities(
                tuple(
                    pattern
                    for item in signatures
                    if item.id != GENERIC
                    for pattern in (*item.lines, *item.says)
                    if not _SLOW.search(pattern)
                )
            )
        )
        self._walk = Walk(
            self._classifier,
            Prefilter(tuple(p for item in signatures for p in (*item.lines, *item.rests))),
            self._pace,
        )
        self._rest = b""
        """An unfinished line."""
        self._told: dict[tuple[int, str], None] = {}
        """Line and signature of what was told in a silence."""
        self._held: list[bytes] = []
        """Not read yet, for want of budget."""
        self._num_held = 0

    # --- in ---------------------------------------------------------------------------------------

    def feed(self, chunk: bytes, t: float | None = None) -> list[Finding]:  # noqa: ARG002  # part of the interface: hang detection reads it
        """Takes the next bytes of the log and returns the findings whose blocks ended in them."""
        return self._untold(self._feed(chunk))

    def _feed(self, chunk: bytes) -> list[Finding]:
        if self._pace.thrifty():
            return self._hold(chunk)
        data = self._rest + chunk
        cut = data.rfind(b"\n") + 1
        if len(data) - cut > MAX_LINE_BYTES:
            cut = max(cut, data.rfind(b"\r") + 1)
            if len(data) - cut > MAX_LINE_BYTES:
                cut = len(data)
        self._rest = data[cut:]
        found: list[Finding] = []
        start = 0
        while start < cut:
            stop = min(start + SLAB_BYTES, cut)
            if stop < cut:
                stop = data.rfind(b"\n", start, stop) + 1 or stop
            fresh, passed = self._walk.stretch(data[start:stop])
            found += fresh
            start += passed
            if self._pace.thrifty() and not self._walk.deep:
                self._rest = b""
                return found + self._hold(data[start:])
        return found

    def pass_over(self, chunk: bytes) -> None:
        """Counts the bytes and lines of a log's beginning that is not to be read."""
        self._walk.pass_over(chunk)

    def quiet(self) -> list[Finding]:
        """Called when 250 ms passed without a byte: what is complete is told; more may yet come."""
        found = self._unhold(LAST_OF_QUIET_BYTES) + self._walk.peek(self._rest)
        fresh = self._untold(found)
        self._told.update(((item.line, item.signature), None) for item in fresh)
        while len(self._told) > MAX_TOLD:
            del self._told[next(iter(self._told))]
        return fresh

    def _untold(self, found: list[Finding]) -> list[Finding]:
        if not self._told:
            return found
        return [item for item in found if (item.line, item.signature) not in self._told]

    def close(
        self, exit_record: ExitRecord | None = None, kernel: Sequence[KernelEvent] = ()
    ) -> Verdict:
        """The verdict; the engine takes nothing more."""
        self._unhold(LAST_BYTES)
        if self._rest:
            data, self._rest = self._rest, b""
            self._walk.stretch(data, whole=True)
        self._walk.finish()
        case = Case(
            sightings=self._walk.notes.sightings,
            said=self._walk.notes.said,
            tail=tuple(self._walk.tail()),
            lines=self._walk.num_lines,
            exit_record=exit_record,
            kernel=tuple(kernel),
        )
        return conclude(case, self._classifier)

    # --- the walk ---------------------------------------------------------------------------------

    def _hold(self, chunk: bytes) -> list[Finding]:
        """Keeps what comes while the budget is spent; of much of it, reads parts."""
        self._held += (self._rest, chunk)
        self._num_held += len(self._rest) + len(chunk)
        self._rest = b""
        if self._num_held < HELD_BYTES:
            return []
        data, begin = b"".join(self._held), 0
        found: list[Finding] = []
        while self._pace.thrifty() and len(data) - begin >= HELD_BYTES:
            stop = begin + HELD_BYTES - LAST_BYTES
            end = data.rfind(b"\n", begin, stop) + 1 or stop
            found += self._sample(data, begin, end, LAST_OF_HELD_BYTES)
            begin = end
        self._held, self._num_held = [data[begin:]], len(data) - begin
        if self._pace.thrifty():
            return found
        self._held, self._num_held = [], 0
        return found + self._feed(data[begin:])

    def _unhold(self, last_bytes: int) -> list[Finding]:
        """Reads parts of what was kept, its end among them, up to its last line's beginning."""
        if not self._held:
            return []
        data = b"".join(self._held)
        cut = data.rfind(b"\n") + 1
        self._held, self._num_held, self._rest = [], 0, data[cut:]
        return self._sample(data, 0, cut, last_bytes)

    def _sample(self, data: bytes, begin: int, end: int, last_bytes: int) -> list[Finding]:
        """Reads parts of these whole lines."""
        found: list[Finding] = []
        position = begin
        for start, stop in self._pace.parts(data, begin, end, last_bytes):
            found += self._walk.skip(data, position, start)
            found += self._walk.stretch(data[start:stop], whole=True)[0]
            position = stop
        return found + self._walk.skip(data, position, end)


def diagnose(
    chunks: Iterable[bytes],
    rules: Sequence[Signature] = (),
    app_roots: Sequence[str] = (),
    exit_record: ExitRecord | None = None,
    kernel: Sequence[KernelEvent] = (),
) -> Verdict:
    """The verdict on a whole log given in chunks of any size."""
    engine = Engine(rules, app_roots)
    for chunk in chunks:
        engine.feed(chunk)
    return engine.close(exit_record, kernel)
