"""The vocabulary between the parts of the dashboard: what crosses from one region to another."""

from dataclasses import dataclass

from textual.message import Message

from tui.fleet import Fleet


@dataclass
class FrameReceived(Message):
    """The source told something new; only the newest counts."""

    fleet: Fleet | None
    connected: bool
    reason: str

    def can_replace(self, message: Message) -> bool:
        """A newer frame holds all that an older one did."""
        return isinstance(message, FrameReceived)


@dataclass
class RunOpened(Message):
    """Somebody wants to look at a run."""

    run: str


@dataclass
class IncidentOpened(Message):
    """Somebody wants to look at an incident."""

    incident: str


class TopOpened(Message):
    """Somebody wants to look at the GPUs of the fleet."""


class SilencesOpened(Message):
    """Somebody wants to look at the alerts that are kept back."""


@dataclass
class LogPlaceWanted(Message):
    """Somebody wants to see a place in a run's log."""

    run: str
    attempt: int
    offset: int


@dataclass
class ActionWanted(Message):
    """Somebody wants something done; `action` is an id of `keys`."""

    action: str
    run: str | None = None
    target: str | None = None
    incident: str | None = None
    program: str | None = None
    """A row of the GPUs' table."""
    silence: str | None = None
    """A row of the silences' table."""


@dataclass
class PageWanted(Message):
    """Somebody wants to read more about a run; `name` is `plots` or a subject of `told`."""

    name: str
    run: str
