"""Follows an attempt: frames of the link's watch become typed events, every byte once.

Owns the translation, and that a metrics event holds whole lines. What a consumer has stored it
says with `stored`; until then the probe keeps its window closed, so that memory stays bounded.
"""

from collections.abc import AsyncIterator
from typing import Any

from orchestrator.clock import Clock
from orchestrator.core.contract import METRICS_FILE
from orchestrator.core.events import (
    EndTold,
    Event,
    Exited,
    LogBytes,
    LogGap,
    MetricLines,
    RelayGone,
    SessionChanged,
)
from orchestrator.core.model import Run
from orchestrator.core.parse.exit_record import exit_record
from orchestrator.link.feeds import Watch
from orchestrator.link.link import Link

LOG = "log"
METRICS = "metrics"
MAX_LINE_BYTES = 1024 * 1024
"""A longer line of metrics is handed out torn: no whole one is that long."""


async def follow(
    link: Link,
    run: Run,
    attempt_dir: str,
    *,
    clock: Clock,
    log_offset: int = 0,
    metrics_offset: int = 0,
    linked: bool = False,
) -> "Follower":
    """Begin to follow an attempt from what is stored of it; also on a link that is down.

    `linked` where its log is the file of a program that was adopted. TargetError where the target
    has no such attempt.
    """
    watch = await link.watch(
        f"{run.id}.{run.uid}.{run.attempt}",
        attempt_dir=attempt_dir,
        log_offset=log_offset,
        metrics_path=f"{run.directory}/{METRICS_FILE}",
        metrics_offset=metrics_offset,
        linked=linked,
    )
    return Follower(watch, clock, metrics_offset)


class Follower:
    """Iterate for the events of one attempt; `Exited` or `RelayGone` comes once, as the last."""

    def __init__(self, watch: Watch, clock: Clock, metrics_offset: int) -> None:
        self._watch = watch
        self._clock = clock
        self._lines = _Lines(metrics_offset)

    async def stored(self, event: LogBytes | LogGap | MetricLines) -> None:
        """The event is stored for good: it never has to be sent again, and more may come."""
        stream = METRICS if isinstance(event, MetricLines) else LOG
        await self._watch.ack(stream, event.end)

    async def close(self) -> None:
        """Stop following; the run goes on."""
        await self._watch.close()

    async def __aiter__(self) -> AsyncIterator[Event]:
        async for event in self.within(None):
            if event is not None:
                yield event

    async def within(self, quiet_s: float | None) -> AsyncIterator[Event | None]:
        """The events, and None once whenever `quiet_s` pass without one (None: never)."""
        async for frame in self._watch.within(quiet_s):
            if frame is None:
                yield None
                continue
            for event in self._events(frame):
                yield event

    def _events(self, frame: dict[str, Any]) -> list[Event]:
        at = self._clock.now() if frame.get("t") is None else float(frame["t"])
        match frame["kind"]:
            case "bytes" if frame["stream"] == LOG:
                return [LogBytes(offset=frame["offset"], data=frame["data"], at=at)]
            case "bytes":
                return list(self._lines.take(frame["offset"], frame["data"], at))
            case "gap" if frame["stream"] == LOG:
                return [_gap(frame, at)]
            case "gap":
                self._lines.begin_anew(frame["next"])
                return []
            case "session":
                return [SessionChanged(detached=bool(frame["detached"]), at=at)]
            case "told":
                return [EndTold()]
            case "exit":
                return [*self._lines.rest(at), _end(frame["record"], at)]
            case "gone":
                return [*self._lines.rest(at), RelayGone(reason=str(frame["reason"]), at=at)]
            case _:
                return []


def _end(record: dict[str, Any], at: float) -> Exited | RelayGone:
    """What is no record tells nothing of the end, but that it is there: a program may write it."""
    try:
        known = exit_record(record)
    except ValueError as exc:
        return RelayGone(reason=str(exc), at=at)
    return Exited(record=known, at=known.ended_at)


def _gap(frame: dict[str, Any], at: float) -> LogGap:
    return LogGap(
        offset=frame["offset"],
        size=frame["size"],
        reason=frame["reason"],
        end=frame["next"],
        at=at,
    )


class _Lines:
    """Holds the torn end of the metrics file until its rest has come."""

    def __init__(self, offset: int) -> None:
        self._offset = offset
        self._held = b""

    def take(self, offset: int, chunk: bytes, at: float) -> list[MetricLines]:
        """The lines that are whole now."""
        if not self._held:
            self._offset = offset
        held = self._held + chunk
        whole = held.rfind(b"\n") + 1
        if not whole and len(held) > MAX_LINE_BYTES:
            whole = len(held)
        self._held = held[whole:]
        return self._handed(held[:whole], at)

    def rest(self, at: float) -> list[MetricLines]:
        """What will never be whole, since nobody writes any more."""
        held, self._held = self._held, b""
        return self._handed(held, at)

    def begin_anew(self, offset: int) -> None:
        """The file was cut or replaced."""
        self._offset, self._held = offset, b""

    def _handed(self, data: bytes, at: float) -> list[MetricLines]:
        if not data:
            return []
        event = MetricLines(offset=self._offset, data=data, at=at)
        self._offset = event.end
        return [event]
