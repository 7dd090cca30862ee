"""What is kept of a log for its verdict: findings and ordinary lines, the first and the newest.

Owns the bounds: a log of any length leaves no more than these behind.
"""

from collections import deque

from orchestrator.core.detect.sighting import Sighting, Spoken

MAX_SIGHTINGS = 400
MAX_LINES = 3000
"""Of the first ones; as many of the newest."""


class Notes:
    """The first and the newest of both, and the first of each signature."""

    def __init__(self) -> None:
        self._first: list[Sighting] = []
        self._known: set[str] = set()
        """Signatures among them: the first of each is kept however many others there are."""
        self._last: deque[Sighting] = deque(maxlen=MAX_SIGHTINGS)
        self._said: list[Spoken] = []
        self._said_last: deque[Spoken] = deque(maxlen=MAX_LINES)

    @property
    def sightings(self) -> tuple[Sighting, ...]:
        """What was found."""
        return (*self._first, *self._last)

    @property
    def said(self) -> tuple[Spoken, ...]:
        """The ordinary lines that were read."""
        return (*self._said, *self._said_last)

    def keep(self, sighting: Sighting) -> None:
        """Takes a finding."""
        new = sighting.finding.signature not in self._known
        if len(self._first) < MAX_SIGHTINGS or new:
            self._known.add(sighting.finding.signature)
            self._first.append(sighting)
        else:
            self._last.append(sighting)

    def say(self, spoken: Spoken) -> None:
        """Takes an ordinary line."""
        if len(self._said) < MAX_LINES:
            self._said.append(spoken)
        else:
            self._said_last.append(spoken)
