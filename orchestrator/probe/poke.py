"""Wakes the probe from the relay: a byte in a FIFO, for what it would not see by itself in time.

Owns the FIFO and when a byte goes into it. Never waits for anybody. Stdlib only.
"""

import os

from .names import POKE_BYTES, POKE_FIFO, POKE_RECORD, POKE_STEADY
from .opening import open_fifo
from .pace import LOUD_FOR_S, STEADY_S, is_trickle

EVERY_S = 0.01
"""A flood that poked for each write would wake the probe thousands of times a second."""


class Bell:
    """The FIFO's end on the side that writes."""

    def __init__(self, directory: str) -> None:
        path = os.path.join(directory, POKE_FIFO)
        try:
            os.mkfifo(path, 0o600)
        except FileExistsError:
            pass
        # Both ways, so that it neither waits for a reader nor breaks without one.
        self._fd = open_fifo(path, os.O_RDWR)

    def ring(self, what: bytes) -> None:
        """Say one of the words."""
        try:
            os.write(self._fd, what)
        except OSError:
            # Full: nobody reads, or the reader has a wake-up waiting already.
            pass


class Poke:
    """When the relay rings; `wait_s` says when `late` is to be called."""

    def __init__(self, directory: str) -> None:
        self._bell = Bell(directory)
        self._wrote_at = float("-inf")
        self._loud_until = float("-inf")
        self._steady = False
        self._next = 0.0
        self._waits = False

    def record(self) -> None:
        """One of the attempt's records is new."""
        self._bell.ring(POKE_RECORD)

    def late_bytes(self) -> None:
        """Bytes that came earlier are in the log now."""
        self._steady = False
        self._bell.ring(POKE_BYTES)

    def wrote(self, output: bytes, begun: float, now: float) -> None:
        """The log has grown by `output`; at `begun` that was not yet so."""
        pause_s, self._wrote_at = now - self._wrote_at, begun
        if not is_trickle(output):
            self._loud_until = now + LOUD_FOR_S
        if now < self._loud_until or pause_s >= STEADY_S:
            self._steady = False
            self._poke(now)
        elif not self._steady:
            self._steady, self._waits = True, False
            self._bell.ring(POKE_STEADY)

    def late(self, now: float) -> None:
        """Poke where that had to wait."""
        if self._waits:
            self._poke(now)

    def wait_s(self, now: float) -> float | None:
        """Seconds until a poke that waits is due; None where none does."""
        return max(0.0, self._next - now) if self._waits else None

    def _poke(self, now: float) -> None:
        self._waits = now < self._next
        if not self._waits:
            self._next = now + EVERY_S
            self._bell.ring(POKE_BYTES)
