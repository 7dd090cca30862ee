"""What a link is worth now: connected, degraded or unreachable, and why; whoever waits is told.

Owns the state and its log lines. Judges nothing by itself: keeper.py says what it sees.
"""

import logging
from collections.abc import Callable
from functools import partial

from orchestrator.core.errors import TargetError
from orchestrator.core.model import LinkState
from orchestrator.link.subscribed import Life

logger = logging.getLogger(__name__)

StateReader = Callable[[LinkState], None]


class Standing:
    """The standing of one target's link."""

    def __init__(self, target: str) -> None:
        self._target = target
        self.state = LinkState.UNREACHABLE
        self.problem: TargetError | None = None
        self._said = ""
        """Why it was lost, as was logged."""
        self._readers: list[StateReader] = []

    def on_state(self, reader: StateReader) -> Callable[[], None]:
        """Call `reader` with every new state, until the result is called."""
        self._readers.append(reader)
        return partial(self._readers.remove, reader)

    def judge(self, probe: Life) -> None:
        """There is a probe, which may be late or cut."""
        if probe.cut is not None:
            self.lose(probe.cut)
            return
        self.problem, self._said = None, ""
        if self.state is LinkState.UNREACHABLE:
            logger.info("link.connected", extra={"target": self._target})
        self._set(LinkState.DEGRADED if probe.late else LinkState.CONNECTED)

    def lose(self, why: TargetError) -> None:
        """There is none that can be heard; the same reason is logged once."""
        self.problem = why
        if str(why) != self._said:
            self._said = str(why)
            extra = {"target": self._target, "reason": self._said}
            logger.info("link.unreachable", extra=extra)
        self.end()

    def end(self) -> None:
        """Nobody keeps the link any more."""
        self._set(LinkState.UNREACHABLE)

    def _set(self, state: LinkState) -> None:
        if state is self.state:
            return
        self.state = state
        for reader in list(self._readers):
            reader(state)
