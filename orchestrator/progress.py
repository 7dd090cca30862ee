"""What one attempt's program tells of itself: its metrics file, and numbers printed in its log.

It owns the newest values of a run, and how many lines are looked at of a flood. It must not store
what the program wrote, reading.py does that, whole; and it must not decide.
"""

import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from orchestrator.clock import Clock
from orchestrator.core.decide.decision import Note
from orchestrator.core.errors import StoreError
from orchestrator.core.model import Run, WatchPolicy
from orchestrator.core.parse.metrics import (
    MAX_INTEGER,
    MetricsLine,
    MetricsReader,
    PatternMetrics,
    Value,
    WholeLines,
)
from orchestrator.core.watch.allowance import Allowance
from orchestrator.core.watch.vigil import Vigil
from orchestrator.store import points
from orchestrator.store.store import Store

PASSED_OVER = "metric_lines_passed_over"
"""Key among a run's metrics: lines that came too fast to be looked at; stored they are all."""
LINES_A_SECOND = 2000
LINES_AT_ONCE = 4000
"""Each takes about 15 us, so that a flood costs the other runs no more than a few per cent."""
NEWEST_LINES = 16
"""So many of each chunk are always looked at: enough for whatever has to be so thrice in a row."""
PHASES_A_SECOND = 1
PHASES_AT_ONCE = 60
MOST_METRICS = 500
MOST_CHARS = 1000
"""The newest values are shown and stored again and again, so that they may not grow for ever."""

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Tally:
    """What a run tells of itself, newest values."""

    step: int | None = None
    loss: float | None = None
    phase: str | None = None
    metrics: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, run: Run) -> "Tally":
        """As it was stored."""
        return cls(run.step, run.loss, run.phase, dict(run.metrics))

    def take(self, line: MetricsLine) -> None:
        """A line of the run contract."""
        self.step = line.step if line.step is not None else self.step
        self.loss = line.loss if line.loss is not None else self.loss
        self.phase = line.phase or self.phase
        self._update(line.values)

    def take_values(self, values: dict[str, float]) -> None:
        """Values that the inventory's patterns found in the log."""
        self.step = step_of(values, self.step)
        self.loss = values.get("loss", self.loss)
        self._update(values)

    def _update(self, values: Mapping[str, Value]) -> None:
        for name, value in values.items():
            if name in self.metrics or len(self.metrics) < MOST_METRICS:
                self.metrics[name] = value[:MOST_CHARS] if isinstance(value, str) else value

    def to_json(self) -> dict[str, Any]:
        """Fields of a run; a loss that is no number stays out of JSON's way as text."""
        return {
            "step": self.step,
            "loss": self.loss,
            "phase": self.phase,
            "metrics": json.loads(json.dumps(self.metrics, default=str)),
        }


def step_of(values: Mapping[str, float], before: int | None) -> int | None:
    """The step among values that patterns found, else the one before."""
    step = values.get("step")
    # Neither NaN nor an infinity is below it.
    return int(step) if step is not None and abs(step) < MAX_INTEGER else before


class Progress:
    """Takes what is new of the metrics file and of the log, once it is stored."""

    def __init__(
        self, store: Store, run: Run, policy: WatchPolicy, clock: Clock, vigil: Vigil
    ) -> None:
        self._store, self._run, self._clock, self._vigil = store, run, clock, vigil
        self._patterns = PatternMetrics(policy.metrics) if policy.metrics else None
        self._reader = MetricsReader()
        self._printed = WholeLines()
        self._lines = Allowance(LINES_A_SECOND, LINES_AT_ONCE)
        self._phases = Allowance(PHASES_A_SECOND, PHASES_AT_ONCE)
        self.tally = Tally.of(run)
        known = run.metrics.get(PASSED_OVER)
        self._passed_over = known if isinstance(known, int) else 0

    def recall(self, written: bytes, printed: bytes) -> None:
        """The newest values again, of whole lines that an earlier daemon stored."""
        for line in self._reader.feed(written):
            self.tally.take(line)
        for values in self._found(self._printed.feed(printed)):
            self.tally.take_values(values)

    async def written(self, fresh: bytes) -> None:
        """New bytes of the metrics file; of a flood the newest lines of each chunk are taken."""
        most = self._granted(fresh.count(b"\n"))
        for line in self._reader.feed(fresh, most):
            await self._note_phase(line)
            self.tally.take(line)
            self._vigil.numbers(line.values, self._clock.now(), told_at=line.t)
        self._say_passed_over()

    def printed(self, fresh: bytes, at: float) -> None:
        """What the inventory's patterns find in new lines; kept as a metrics file's are."""
        if self._patterns is None:
            return
        lines, found = self._printed.feed(fresh), []
        for values in self._found(lines[-self._granted(len(lines)) :]):
            self.tally.take_values(values)
            self._vigil.numbers(values, self._clock.now(), told_at=None)
            found.append(points.point(self.tally.step, values, at))
        self._say_passed_over()
        try:
            points.keep(self._store.metrics, self._run.id, found, at)
        except StoreError as error:
            # A plot may lack a piece; the output itself is stored.
            logger.warning("points.not_stored", extra={"run": self._run.id, "why": str(error)})

    def _granted(self, lines: int) -> int:
        """How many of so many new lines are looked at; the others are counted."""
        most = max(NEWEST_LINES, self._lines.take(lines, self._clock.monotonic()))
        self._passed_over += max(0, lines - most)
        return most

    def _say_passed_over(self) -> None:
        """After the lines, since a program may use any word for its own numbers."""
        if self._passed_over:
            self.tally.metrics[PASSED_OVER] = self._passed_over

    def _found(self, lines: list[str]) -> Iterator[dict[str, float]]:
        """What the patterns find in each of these lines."""
        if self._patterns is not None:
            yield from filter(None, map(self._patterns.read, lines))

    async def _note_phase(self, line: MetricsLine) -> None:
        """A new phase is a line of the run's timeline; one that changes all the time is noise."""
        if line.phase is None or line.phase == self.tally.phase:
            return
        if not self._phases.take(1, self._clock.monotonic()):
            return
        body = {"phase": line.phase, "t": line.t, "step": line.step}
        try:
            await self._store.journal.add(Note(kind="run.phase", body=body), run=self._run.id)
        except StoreError as error:
            logger.warning("phase.not_stored", extra={"run": self._run.id, "why": str(error)})
