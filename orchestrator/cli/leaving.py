"""Ctrl-C while the daemon gets ready to launch: whether there is a run is known a moment later.

Owns SIGINT, and SIGALRM from the first Ctrl-C on, for as long as the context lasts.
"""

import signal
from types import FrameType, TracebackType
from typing import NoReturn

_PATIENCE_S = 2.0
"""How long the daemon may take, once the person has asked to leave, to say that it launched."""


class Leaving:
    """Used as a context; KeyboardInterrupt comes after a second Ctrl-C, or when time is up."""

    def __init__(self) -> None:
        self.asked = False
        """Whether there was a Ctrl-C."""
        self.too_late = False
        """Whether the launch has begun, so that leaving does not keep the run from being."""
        self._before = signal.getsignal(signal.SIGINT)

    def __enter__(self) -> "Leaving":
        signal.signal(signal.SIGINT, self._ask)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.asked:
            signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGINT, self._before)

    def wait_for_it(self) -> None:
        """The launch has begun: its end is near, and is waited for."""
        self.too_late = True
        if self.asked:
            signal.setitimer(signal.ITIMER_REAL, 0)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            self._leave(number, frame)
        self.asked = True
        if not self.too_late:
            signal.signal(signal.SIGALRM, self._leave)
            signal.setitimer(signal.ITIMER_REAL, _PATIENCE_S)

    def _leave(self, _number: int, _frame: FrameType | None) -> NoReturn:
        raise KeyboardInterrupt
