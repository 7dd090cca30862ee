"""Reads one attempt for its supervisor: stores its bytes, feeds detection, keeps its metrics.

It owns the order in which a byte is stored, acknowledged and detected; what the program tells of
itself is progress.py's. It must not decide anything: findings and ends are handed on.
"""

import asyncio
import logging
import math
from collections.abc import AsyncGenerator, Callable
from functools import partial
from typing import TypeVar

from orchestrator.clock import Clock
from orchestrator.core.detect.engine import Engine
from orchestrator.core.detect.signatures.model import Signature
from orchestrator.core.errors import NotDriven, StoreError
from orchestrator.core.events import Event, Exited, LogBytes, LogGap, MetricLines, RelayGone
from orchestrator.core.findings import Finding, Verdict
from orchestrator.core.model import Job, Run
from orchestrator.core.parse.kernel_log import KernelEvent
from orchestrator.core.parse.masking import Mask
from orchestrator.core.watch.vigil import Vigil
from orchestrator.observe.follow import Follower
from orchestrator.progress import Progress, Tally
from orchestrator.store import points
from orchestrator.store.logs import Logs
from orchestrator.store.store import Store

QUIET_S = 0.25
RECALLED_BYTES = 512 * 1024
"""More than a chunk, so that no line of one is missed."""
REPLAY_BYTES = 64 * 1024 * 1024
COVERED_AT_ONCE_BYTES = 32 * 1024
"""A tenth of a second where it is nothing but secrets; what is longer is no matter of the loop."""
PERSIST_EVERY_S = 5.0
"""For daemons that only look on; one that takes the run up reads the newest values again."""
FULL_DISK_PAUSE_S = 2.0
NOT_STORED = "output_not_stored"
"""Key among a run's metrics while its output cannot be stored here: the reason."""

LOST_BYTES = "output_lost_bytes"
"""Key among a run's metrics: how much of its output no file has, as the target tells of it."""

LOST_WHY = "output_lost_why"
"""Likewise, the newest reason: `disk_full`, `truncated` or `rotated`."""

READ_TO = "read_to"
"""Key among a run's metrics: attempt and offset up to which its output was read, by any daemon."""

READ_BY = "read_by"
"""Likewise, in a shared fleet: machine and state folder of the daemon that read it last."""

Stored = TypeVar("Stored")

logger = logging.getLogger(__name__)


async def covered_beside(mask: Mask, offset: int, chunk: bytes) -> bytes:
    """The chunk, covered; where it is long the loop goes on with all other runs meanwhile."""
    if len(chunk) <= COVERED_AT_ONCE_BYTES:
        return mask.cover(offset, chunk)
    return await asyncio.to_thread(mask.cover, offset, chunk)


class Reader:
    """One attempt, from what is stored of it to its end."""

    def __init__(
        self,
        store: Store,
        run: Run,
        job: Job,
        rules: tuple[Signature, ...],
        clock: Clock,
        secrets: tuple[str, ...] = (),
    ) -> None:
        self._store, self._run, self._clock = store, run, clock
        self._engine = Engine(rules)
        # A program that prints its secret must not have it kept, shown and sent.
        self._output_mask, self._metrics_mask = Mask(secrets), Mask(secrets, of_json=True)
        self._persisted_at = clock.monotonic()
        self._gaps: set[tuple[int, int, str]] = set()
        self._printed_at = math.inf
        """When the newest bytes of the log came; infinite once what they began was told."""
        self.vigil = Vigil(
            job.watch,
            run.started_at or clock.now(),
            clock.now(),
            has_output=self.log_offset > 0,
            has_steps=run.step is not None,
            rules=rules,
        )
        self._progress = Progress(store, run, job.watch, clock, self.vigil)
        self._read_before = read_to(run)
        self._rereads = self.log_offset < self._read_before
        self.told_of: Callable[[], frozenset[str]] = frozenset
        """Fingerprints that incidents stand for: found again in what was read before, no news."""
        self.changed: Callable[[], None] = lambda: None
        """Called when there is something new to show."""

    @property
    def tally(self) -> Tally:
        """What the run tells of itself, newest values."""
        return self._progress.tally

    @property
    def log_offset(self) -> int:
        """Up to which byte the output is stored."""
        return self._store.logs.end(self._run.id, self._run.attempt)

    @property
    def metrics_offset(self) -> int:
        """Up to which byte the metrics file is stored."""
        return self._store.metrics.end(self._run.id, points.WRITTEN)

    def replay(self) -> list[Finding]:
        """Detect again what an earlier daemon stored; the newest 64 MiB are enough.

        The newest values are read again as well: a daemon may have died over them.
        """
        self._recall()
        begin = max(0, self.log_offset - REPLAY_BYTES)
        found: list[Finding] = []
        for offset, chunk in self._store.logs.parts(self._run.id, self._run.attempt):
            old = max(0, min(len(chunk), begin - offset))
            self._engine.pass_over(chunk[:old])  # counted, so that lines keep their numbers
            found += self._engine.feed(chunk[old:])
        return found

    def _recall(self) -> None:
        begin = max(0, self.metrics_offset - RECALLED_BYTES)
        chunk = self._store.metrics.read(self._run.id, points.WRITTEN, begin, RECALLED_BYTES)
        written = chunk if not begin else chunk.partition(b"\n")[2]
        log = self._store.logs.tail(self._run.id, self._run.attempt, RECALLED_BYTES)
        self._progress.recall(written, log)

    async def events(self, follower: Follower) -> AsyncGenerator[Finding | Event, None]:
        """Findings and events of the attempt; every byte is stored before it is acknowledged."""
        async for event in follower.within(QUIET_S):
            match event:
                case None:
                    findings = self._engine.quiet()
                case LogBytes():
                    findings = await self._bytes(event)
                    await follower.stored(event)
                case LogGap():
                    await self._when_stored(partial(self._gap, event))
                    findings = self._lost(event)
                    await follower.stored(event)
                case MetricLines():
                    await self._metric_lines(event)
                    await follower.stored(event)
                    findings = self._settled()
                case _:
                    await self.persist()
                    yield event
                    continue
            for finding in findings:
                yield finding

    def _settled(self) -> list[Finding]:
        """What a quiet log tells although metrics go on coming, so that no pause is ever seen."""
        if self._clock.monotonic() - self._printed_at < QUIET_S:
            return []
        self._printed_at = math.inf
        return self._engine.quiet()

    def verdict(self, end: Exited | RelayGone, kernel: tuple[KernelEvent, ...]) -> Verdict:
        """How the attempt ended and why; `kernel` is what its host's kernel said of it."""
        self._store.logs.close(self._run.id, self._run.attempt)
        for place in (points.WRITTEN, points.FOUND):
            self._store.metrics.close(self._run.id, place)
        return self._engine.close(end.record if isinstance(end, Exited) else None, kernel)

    async def persist(self) -> None:
        """Keep the tally in the store."""
        self._persisted_at = self._clock.monotonic()
        end = max(self.log_offset, self._read_before)
        self.tally.metrics[READ_TO] = f"{self._run.attempt}:{end}"
        if self._store.leases is not None:
            self.tally.metrics[READ_BY] = self._store.place
        try:
            await self._store.runs.update(self._run.id, **self.tally.to_json())
        except (StoreError, NotDriven) as error:
            # The newest values are kept again in a moment; what was printed matters more.
            # Of a daemon that stood still they are old, and its successor's stay.
            logger.warning("tally.not_stored", extra={"run": self._run.id, "why": str(error)})

    def _lost(self, gap: LogGap) -> list[Finding]:
        """Say how much is missing: no offset counts it, and each new link tells of it again."""
        self._gaps.add((gap.offset, gap.size, gap.reason))
        lost = sum(size for _, size, _ in self._gaps)
        self.tally.metrics[LOST_BYTES] = max(lost, self.tally.metrics.get(LOST_BYTES) or 0)
        self.tally.metrics[LOST_WHY] = gap.reason
        self.changed()
        found = self.vigil.lost(lost)
        told = gap.reason != "disk_full" or found.fingerprint in self.told_of()
        return [] if told else [found]

    async def _bytes(self, event: LogBytes) -> list[Finding]:
        fresh = await self._kept(self._store.logs, self._run.attempt, event, self._output_mask)
        self._printed_at = self._clock.monotonic()
        findings = self._news(event, fresh)
        self.tally.metrics["output_at"] = event.at
        self.vigil.output(self._clock.now())
        self.vigil.text(fresh, self._clock.now())
        self._progress.printed(fresh, event.at)
        await self._persist_now_and_then()
        self.changed()
        return findings

    def _news(self, event: LogBytes, fresh: bytes) -> list[Finding]:
        """What nobody has decided on: another daemon may have read the beginning before us."""
        found = self._engine.feed(fresh, event.at)
        if not self._rereads:
            return found
        known = self.told_of()
        return [
            one for one in found if one.offset >= self._read_before or one.fingerprint not in known
        ]

    async def _kept(
        self, logs: Logs, place: int, event: LogBytes | MetricLines, mask: Mask
    ) -> bytes:
        """What is new of the bytes, once it is stored."""
        covered = await covered_beside(mask, event.offset, event.data)
        end = logs.end(self._run.id, place)
        keep = partial(logs.append, self._run.id, place, event.offset, covered, event.at)
        await self._when_stored(keep)
        # Of a chunk that was stored in pieces, since the disk was full, each piece is news.
        return covered[max(0, end - event.offset) :]

    def _gap(self, event: LogGap) -> None:
        size = event.end - event.offset
        self._store.logs.gap(self._run.id, self._run.attempt, event.offset, size)

    async def _when_stored(self, store: Callable[[], Stored]) -> Stored:
        """What `store` gives; a full disk here is waited for.

        Nothing is acknowledged meanwhile, so that the target keeps what cannot be stored yet.
        """
        run = self._run.id
        while True:
            try:
                stored = store()
            except StoreError as error:
                if self.tally.metrics.get(NOT_STORED) is None:
                    logger.exception("log.not_stored", extra={"run": run})
                self.tally.metrics[NOT_STORED] = str(error)
                self.changed()
                await self._clock.sleep(FULL_DISK_PAUSE_S)
            else:
                self.tally.metrics.pop(NOT_STORED, None)
                return stored

    async def _metric_lines(self, event: MetricLines) -> None:
        fresh = await self._kept(self._store.metrics, points.WRITTEN, event, self._metrics_mask)
        await self._progress.written(fresh)
        await self._persist_now_and_then()
        self.changed()

    async def _persist_now_and_then(self) -> None:
        if self._clock.monotonic() - self._persisted_at >= PERSIST_EVERY_S:
            await self.persist()


def read_to(run: Run) -> int:
    """Up to where the output of the newest attempt was read, by any daemon."""
    attempt, _, offset = str(run.metrics.get(READ_TO, "")).partition(":")
    return int(offset) if attempt == str(run.attempt) and offset.isdigit() else 0


def place_of(run: Run) -> str | None:
    """Where the daemon is that read its output last, by machine and state folder."""
    place = run.metrics.get(READ_BY)
    return place if isinstance(place, str) else None
