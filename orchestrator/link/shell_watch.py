"""One attempt watched by the plain shell: frames as a probe would send them, a few seconds late.

Owns the offsets of one watch and the reading of what LOOK printed. Asks nothing itself.
"""

import json
from collections.abc import Mapping
from typing import Any

from orchestrator.probe.frames import WINDOW_BYTES, Frame, pack

MOST_BYTES = 1 << 20
"""Of each stream, a look."""

LOG, METRICS = "log", "metrics"
_GONE_LOOKS = 2
"""Looks without a living shell and without a record: between the two it may just be ending."""


class ShellWatch:
    """Follows one attempt until `over`."""

    def __init__(self, args: Mapping[str, Any]) -> None:
        self.name = str(args["watch"])
        self.directory = str(args["attempt_dir"])
        self.metrics_path = str(args.get("metrics_path") or "/dev/null")
        self._offsets = {
            LOG: int(args.get("log_offset") or 0),
            METRICS: int(args.get("metrics_offset") or 0),
        }
        self._acked = dict(self._offsets)
        self._gone_looks = 0
        self.over = False
        self.more = False
        """Whether the last look left bytes behind."""

    @property
    def words(self) -> tuple[str, ...]:
        """The arguments of LOOK."""
        offset, metrics = self._offsets[LOG], self._offsets[METRICS]
        return (self.directory, str(offset), self.metrics_path, str(metrics), str(self._room))

    @property
    def _room(self) -> int:
        """Bytes that may be read before the daemon has stored what it has."""
        late = max(self._offsets[name] - self._acked[name] for name in self._offsets)
        return max(0, min(MOST_BYTES, WINDOW_BYTES - late))

    def acknowledge(self, stream: str, offset: int) -> None:
        """The daemon has stored a stream up to `offset`."""
        self._acked[stream] = max(self._acked.get(stream, 0), offset)

    def frames(self, seen: bytes) -> list[Frame]:
        """Frames of what LOOK printed; ValueError where it is torn."""
        head, _, rest = seen.partition(b"\n")
        alive, total, size, mtotal, msize, now = (int(word) for word in head.split())
        record, _, chunks = rest.partition(b"\n")
        if len(chunks) != size + msize:
            raise ValueError(f"{len(chunks)} bytes came, not {size + msize}")
        parts = ((LOG, total, chunks[:size]), (METRICS, mtotal, chunks[size:]))
        frames: list[Frame] = []
        for stream, end, chunk in parts:
            frames += self._stream(stream, end, chunk, float(now))
        self.more = any(end > self._offsets[stream] for stream, end, _ in parts)
        frames += self._end(record, alive=bool(alive))
        return [{**frame, "watch": self.name} for frame in frames]

    def _stream(self, stream: str, end: int, chunk: bytes, now: float) -> list[Frame]:
        offset = self._offsets[stream]
        if end < offset:
            self._offsets[stream] = self._acked[stream] = 0
            gap = {"kind": "gap", "stream": stream, "offset": offset, "size": 0}
            return [{**gap, "reason": "truncated", "next": 0}]
        if not chunk:
            return []
        self._offsets[stream] = offset + len(chunk)
        frame = {"kind": "bytes", "stream": stream, "offset": offset, "data": pack(chunk)}
        return [{**frame, "t": now}]

    def _end(self, record: bytes, *, alive: bool) -> list[Frame]:
        if self.more:
            return []
        if record.strip():
            self.over = True
            return [{"kind": "exit", "record": json.loads(record)}]
        self._gone_looks = 0 if alive else self._gone_looks + 1
        if self._gone_looks < _GONE_LOOKS:
            return []
        self.over = True
        return [{"kind": "gone", "reason": "relay_ended"}]
