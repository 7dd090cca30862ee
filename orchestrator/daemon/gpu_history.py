"""The newest rounds of a target's GPUs, as many as are kept in memory.

Owns the bounds: of their number, and of their size, which what is on the target decides.
"""

from collections import deque

from orchestrator.core.events import GpusSampled

MOST_ROUNDS = 1800
MOST_CHARS = 16 * 1024**2
"""Of all rounds as text, which is about what they are in memory; one of 8 GPUs has 5000."""


class GpuHistory:
    """The rounds of one target, oldest first; the newest is there whatever its size."""

    def __init__(self) -> None:
        self._rounds: deque[tuple[GpusSampled, int]] = deque()
        self._chars = 0

    def add(self, gpus: GpusSampled) -> None:
        """Keep a round, unless it is the newest already; the oldest go where it is too much."""
        if self._rounds and self._rounds[-1][0] == gpus:
            return
        chars = len(repr(gpus))
        self._rounds.append((gpus, chars))
        self._chars += chars
        while len(self._rounds) > 1 and (
            len(self._rounds) > MOST_ROUNDS or self._chars > MOST_CHARS
        ):
            self._chars -= self._rounds.popleft()[1]

    def rounds(self) -> list[GpusSampled]:
        """Those that are kept."""
        return [gpus for gpus, _ in self._rounds]
