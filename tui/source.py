"""Where the dashboard's facts come from: the protocol, and the daemon itself.

Blocking on purpose: the app calls it through `bridge`. A source never touches a widget.
"""

import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from orchestrator.api.client import Client, LogPart, quoted
from orchestrator.api.location import Location, daemon_socket
from orchestrator.core.errors import OrchError
from orchestrator.core.parse.searching import Progress
from tui.fleet import Fleet

Message = dict[str, Any]
Query = Mapping[str, str | int | float | None]

RECONNECT_S = 0.5
BUNDLE_WITHIN_S = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """The newest fleet, or that the daemon is gone and why."""

    fleet: Fleet | None
    connected: bool
    reason: str = ""


class Matches(NamedTuple):
    """Lines of a log that match, in order; the last ones of a search have `ended`, maybe early."""

    offsets: Sequence[int]
    ended: bool = False
    more: bool = False


class Source(Protocol):
    """A daemon, or something that answers as one; every failure is an OrchError."""

    def now(self) -> float:
        """Unix seconds, by the clock that the ages are told by."""
        ...

    def watch(self) -> Iterator[Frame]:
        """Frames as things change; goes on after the daemon went and came back."""
        ...

    def ask(
        self, method: str, path: str, body: Message | None = None, query: Query | None = None
    ) -> Message:
        """One document."""
        ...

    def stream(self, path: str, body: Message) -> Iterator[Message]:
        """The messages of something that is done, to its end."""
        ...

    def log(self, run: str, *, attempt: int | None, offset: int, size: int) -> LogPart:
        """A range of a run's log."""
        ...

    def offset_at(self, run: str, at: float) -> tuple[int, int]:
        """Attempt and offset of what a run wrote at a unix time or next."""
        ...

    def archive(self, run: str) -> tuple[Message, bytes]:
        """A run's bundle, and what is said of it."""
        ...

    def search(
        self, run: str, *, attempt: int | None, words: str, way: str, offset: int
    ) -> Iterator[Progress]:
        """The nearest line that matches, `down` or `up` from an offset; progress before it."""
        ...

    def matches(self, run: str, *, attempt: int | None, words: str) -> Iterator[Matches]:
        """All lines that match, up to a number, as they are found."""
        ...


class LiveSource:
    """The daemon of an inventory, found anew for every call."""

    def __init__(self, location: Location) -> None:
        self._location = location

    def now(self) -> float:
        """Unix seconds."""
        return time.time()  # noqa: TID251  orchestrator.clock is the daemon's

    def watch(self) -> Iterator[Frame]:
        """Frames of /v1/events, called again for ever."""
        fleet: Fleet | None = None
        pause = threading.Event()
        while True:
            try:
                for name, document in self._client().events():
                    if name == "snapshot" or fleet is None:
                        fleet = Fleet.of(document)  # type: ignore[arg-type]  # the API's promise
                        self._pass_values(document)
                    else:
                        fleet = fleet.merged(document)  # type: ignore[arg-type]  # likewise
                    yield Frame(fleet=fleet, connected=True)
                reason = "The daemon ended."
            except OrchError as error:
                reason = str(error)
            except (KeyError, TypeError, ValueError) as error:
                reason = f"The daemon speaks another version of the API ({error!r})."
            yield Frame(fleet=fleet, connected=False, reason=reason)
            pause.wait(RECONNECT_S)

    def ask(
        self, method: str, path: str, body: Message | None = None, query: Query | None = None
    ) -> Message:
        """One document."""
        return self._client().call(method, path, body, query=query)

    def stream(self, path: str, body: Message) -> Iterator[Message]:
        """POST, and its messages."""
        return self._client().stream("POST", path, body)

    def log(self, run: str, *, attempt: int | None, offset: int, size: int) -> LogPart:
        """A range of a run's log."""
        return self._client().log(run, attempt=attempt, offset=offset, size=size)

    def offset_at(self, run: str, at: float) -> tuple[int, int]:
        """As the daemon noted when it saw the bytes."""
        part = self._client().log(run, since=at, size=1)
        return part.attempt, part.offset

    def archive(self, run: str) -> tuple[Message, bytes]:
        """Made by the daemon."""
        return self._client().archive(run_path(run, "/bundle"), timeout_s=BUNDLE_WITHIN_S)

    def search(
        self, run: str, *, attempt: int | None, words: str, way: str, offset: int
    ) -> Iterator[Progress]:
        """Searched where the log lies: over there."""
        query = {"attempt": attempt, "words": words, "way": way, "offset": offset}
        for message in self._client().stream("GET", run_path(run, "/search"), query=query):
            if message["kind"] != "none":
                yield Progress(message["offset"], found=message["kind"] == "found")

    def matches(self, run: str, *, attempt: int | None, words: str) -> Iterator[Matches]:
        """Searched over there as well."""
        query = {"attempt": attempt, "words": words, "way": "all"}
        for message in self._client().stream("GET", run_path(run, "/search"), query=query):
            if message["kind"] == "matches":
                yield Matches(message["offsets"])
            elif message["kind"] == "end":
                yield Matches((), ended=True, more=message["more"])

    def _client(self) -> Client:
        return Client(daemon_socket(self._location))

    def _pass_values(self, snapshot: Mapping[str, Any]) -> None:
        """Give the daemon the values that it has not and this environment has."""
        needs = snapshot["daemon"].get("needs") or []
        values = {name: os.environ[name] for name in needs if os.environ.get(name)}
        if values:
            self._client().call("PUT", "/v1/environment", values)


def run_path(run: str, rest: str = "") -> str:
    """Path of a run in the API."""
    return f"/v1/runs/{quoted(run)}{rest}"


def incident_path(incident: str, rest: str = "") -> str:
    """Path of an incident in the API."""
    return f"/v1/incidents/{quoted(incident)}{rest}"
