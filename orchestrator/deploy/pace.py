"""How fast a link takes what is sent to it, and so whether compressing pays."""

import asyncio
import contextlib
from collections.abc import Iterator

FAST_BYTES_PER_S = 12e6
"""A link that takes more than this is not worth the time of compressing."""


class Pace:
    """How fast a link takes what is sent, by the time in which anything was on its way."""

    def __init__(self) -> None:
        self._now = asyncio.get_running_loop().time
        self._began = self._now()
        self._under_way = 0
        self._since = 0.0
        self._busy_s = 0.0
        self._arrived = 0

    @property
    def is_slow(self) -> bool:
        """Whether compressing pays; no as long as nothing is known."""
        return self._arrived < self._busy_s * FAST_BYTES_PER_S

    @contextlib.contextmanager
    def carrying(self, size: int) -> Iterator[None]:
        """While so many bytes are on their way."""
        if not self._under_way:
            self._since = self._now()
        self._under_way += 1
        try:
            yield
        finally:
            now = self._now()
            self._arrived += size
            self._busy_s += now - self._since
            self._since = now
            self._under_way -= 1

    def progress(self, sent: int) -> float:
        """Bytes per second since the beginning."""
        return sent / max(self._now() - self._began, 1e-3)
