"""Answers that come from another daemon, and what is left of them where they end too early."""

import contextlib
import json
import socket
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from pathlib import Path

import pytest

from orchestrator.api.client import Client
from orchestrator.api.forwarding import Asked, Elsewhere
from orchestrator.api.location import Location, locate
from orchestrator.api.messages import Snapshot
from orchestrator.core.errors import ApiError, DaemonError, OrchError
from tests.cli.canned import CannedBackend, CannedDaemon

LINES, DOCUMENT, BYTES = "application/x-ndjson", "application/json", "application/octet-stream"
ENDED = DaemonError("The daemon that drove pve1 did not end its answer.", remedy="Ask once more.")


class FarBackend(CannedBackend):
    """Every run is another daemon's, whose answer is what the test says."""

    kind = LINES
    parts: tuple[bytes | Exception, ...] = ()
    breaks: Exception | None = None

    def __init__(self, location: Location) -> None:
        super().__init__(location)
        self.left = threading.Event()
        """Set once an answer is asked for no more."""

    async def elsewhere(self, words: str, what: str) -> Elsewhere:  # type: ignore[override]
        return Elsewhere(words=words, ask=self._ask)

    async def _ask(self, _asked: Asked) -> AsyncGenerator[bytes, None]:
        try:
            yield json.dumps({"status": 200, "headers": {"Content-Type": self.kind}}).encode()
            for part in self.parts:
                if isinstance(part, Exception):
                    raise part
                yield part
        finally:
            self.left.set()

    async def changes(self, since: int) -> AsyncGenerator[Snapshot, None]:
        yield await self.snapshot(since)
        raise self.breaks or AssertionError


@pytest.fixture
def far(short_folder: Path) -> Iterator[Callable[..., Client]]:
    """`far(kind, *parts)`: a client of a daemon that passes on; a part may be an error."""
    location = locate(short_folder / "inventory.yaml", {"XDG_STATE_HOME": str(short_folder)})
    backend = FarBackend(location)
    with CannedDaemon(location, backend):

        def say(kind: str, *parts: bytes | Exception) -> Client:
            backend.kind, backend.parts = kind, parts
            return Client(location.socket)

        yield say


def test_an_error_on_the_way_is_the_last_line_of_a_stream(far: Callable[..., Client]) -> None:
    """Half a line that came before it is not shown: the client reads documents to the end."""
    client = far(LINES, b'{"n": 1}\n{"n"', b': 2}\n\n{"n": 3', ENDED)
    messages = client.stream("GET", "/v1/runs/x-1/follow")
    assert [next(messages), next(messages)] == [{"n": 1}, {"n": 2}]
    with pytest.raises(ApiError, match="did not end its answer") as caught:
        next(messages)
    assert caught.value.remedy == "Ask once more."


@pytest.mark.parametrize("kind", [DOCUMENT, BYTES])
def test_an_error_on_the_way_is_the_answer_where_nothing_has_left_yet(
    far: Callable[..., Client], kind: str
) -> None:
    """A document or a log is sent once it is whole: no half of one, and no answer within it."""
    client = far(kind, b'{"id": "x-1", ', ENDED)
    with pytest.raises(ApiError, match="did not end its answer"):
        client.get("/v1/runs/x-1")


def test_what_comes_whole_is_passed_on_as_it_is(far: Callable[..., Client]) -> None:
    """Documents, and streams whose lines are torn between parts, or have no end of line."""
    assert far(DOCUMENT, b'{"id": ', b'"x-1"}').get("/v1/runs/x-1") == {"id": "x-1"}
    client = far(LINES, b'{"n":', b" 1", b'}\n{"n": 2}')
    assert list(client.stream("GET", "/v1/runs/x-1/follow")) == [{"n": 1}, {"n": 2}]


@pytest.mark.parametrize("failure", [ENDED, ValueError("a fault of ours")])
def test_a_stream_of_events_that_fails_is_cut(short_folder: Path, failure: OrchError) -> None:
    """Its client sees that it ended too early, and no second answer among the events."""
    location = locate(short_folder / "inventory.yaml", {"XDG_STATE_HOME": str(short_folder)})
    backend = FarBackend(location)
    backend.breaks = failure
    with CannedDaemon(location, backend):
        assert raw(location.socket, "/v1/events").count(b"HTTP/1.1 ") == 1
        events = Client(location.socket).events()
        assert [next(events)[0], next(events)[0]] == ["snapshot", "change"]
        with pytest.raises(DaemonError, match=r"cut short|stopped answering"):
            next(events)


def test_a_client_that_leaves_within_an_answer_is_no_error(
    short_folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What is asked for it ends, and nobody's log is filled with that."""
    location = locate(short_folder / "inventory.yaml", {"XDG_STATE_HOME": str(short_folder)})
    backend = FarBackend(location)
    backend.kind, backend.parts = LINES, (b'{"n": 1}\n' * 10_000,) * 200
    with CannedDaemon(location, backend):
        stream = Client(location.socket).stream("GET", "/v1/runs/x-1/follow")
        assert next(stream) == {"n": 1}
        assert isinstance(stream, Generator)
        stream.close()
        assert backend.left.wait(30)
    assert "Error handling request" not in caplog.text


def raw(place: Path, path: str) -> bytes:
    """Everything that comes on one connection."""
    came = b""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(30)
        connection.connect(str(place))
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: orch\r\n\r\n".encode())
        with contextlib.suppress(ConnectionResetError):
            while part := connection.recv(65_536):
                came += part
    return came
