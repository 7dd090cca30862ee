"""The pane's copy of the output: best effort, never waited for.

tmux parses slower than a program can print, so the copy has a rate; what does not fit is
dropped from the display only, oldest first, and the pane says how much.
"""

import os

PENDING_BYTES = 256 * 1024
KEPT_BYTES = 64 * 1024
BYTES_PER_S = 1024 * 1024
"""A hundred screens a second; what tmux draws beyond that costs the program its CPU."""
WRITE_BYTES = 16 * 1024


class Pane:
    """Writes to the pane's terminal `fd`, which is non-blocking, while anybody shows it."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._pending = bytearray()
        self._notice = 0
        """How much of what waits is our own notice, at its head."""
        self._not_before = 0.0
        self.gone = False
        """Whether the terminal was taken away; for good, since it cannot be opened again."""
        self.dropped_bytes = 0

    def show(self, chunk: bytes) -> None:
        """Queue for display."""
        if self.gone:
            return
        self._pending += chunk
        if len(self._pending) > PENDING_BYTES:
            self._drop()

    def _drop(self) -> None:
        cut = len(self._pending) - KEPT_BYTES
        newline = self._pending.find(b"\n", cut)
        if newline >= 0:
            cut = newline + 1
        self.dropped_bytes += cut - self._notice
        notice = f"\r\n[orch] {self.dropped_bytes} bytes not shown here; all are in the log\r\n"
        self._pending[:cut] = notice.encode()
        self._notice = len(notice)

    def wants(self, now: float) -> float | None:
        """Seconds until it can write again; None where nothing waits."""
        if not self._pending or self.gone:
            return None
        return max(0.0, self._not_before - now)

    def write(self, now: float) -> None:
        """Hand the terminal as much as it takes now."""
        try:
            written = os.write(self._fd, self._pending[:WRITE_BYTES])
        except BlockingIOError:
            return
        except OSError:
            self.lose()
            return
        del self._pending[:written]
        self._notice = max(0, self._notice - written)
        self._not_before = max(now, self._not_before) + written / BYTES_PER_S

    def lose(self) -> None:
        """Stop showing."""
        self.gone = True
        self._pending.clear()
