"""Calls the daemon over its unix socket, for the CLI and the dashboard: small HTTP/1.1 by hand.

Owns connecting and asking; what comes back is read in answers.py. Loads `socket` and `json` and
little else, since `orch status` must be as quick as the shell that asks. Starts no daemon and knows
no commands; every failure is an OrchError.
"""

import json
import os
import socket
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, NamedTuple

from orchestrator.api.answers import (
    RESTART,
    DaemonGone,
    Message,
    Response,
    api_error,
    as_document,
    body_bytes,
    body_lines,
    broken,
    read_head,
)
from orchestrator.core.errors import DaemonError, NoDaemon

ANSWER_TIMEOUT_S = 60.0
ALIVE_WITHIN_S = 10.0
"""A daemon that is alive tells of itself by then, however busy it is."""
STREAM_SILENCE_S = 60.0
"""A stream has a sign of life every 15 s; four missed ones mean that the daemon is stuck."""

Query = Mapping[str, str | int | float | None]


class LogPart(NamedTuple):
    """A range of a stored log; `size` is that of the whole, `attempt` the one it belongs to."""

    content: bytes
    offset: int
    size: int
    attempt: int

    @property
    def end(self) -> int:
        """Offset behind the last byte."""
        return self.offset + len(self.content)


class Client:
    """One daemon, by its socket; a connection for each call, so it may be used from any thread."""

    def __init__(self, socket_path: Path, *, timeout_s: float = ANSWER_TIMEOUT_S) -> None:
        self.socket_path = socket_path
        self.daemon: Message = {}
        """DaemonView as it was when the command began, where that was asked for."""
        self._timeout_s = timeout_s

    def get(
        self, path: str, query: Query | None = None, *, timeout_s: float | None = None
    ) -> Message:
        """The document at a path; `timeout_s` where the daemon may take its time."""
        return self.call("GET", path, query=query, timeout_s=timeout_s)

    def daemon_view(self) -> Message:
        """What the daemon says of itself; DaemonSilent soon where it is stuck."""
        try:
            return self.get("/v1/daemon", timeout_s=ALIVE_WITHIN_S)
        except DaemonGone:
            # One that was killed this moment hangs up; whoever asks again meets none, or the next.
            return self.get("/v1/daemon", timeout_s=ALIVE_WITHIN_S)

    def call(
        self,
        method: str,
        path: str,
        body: Message | None = None,
        *,
        query: Query | None = None,
        timeout_s: float | None = None,
    ) -> Message:
        """Send a document (or nothing) and return the one that comes back."""
        raw, _ = self._whole(method, path, body, query, timeout_s)
        return as_document(raw)

    def log(self, run: str, **query: str | int | float | None) -> LogPart:
        """A range of a run's log: attempt, offset, size, tail (lines), since (unix)."""
        content, headers = self._whole("GET", f"/v1/runs/{quoted(run)}/log", None, query, None)
        try:
            return LogPart(
                content,
                int(headers["x-orch-offset"]),
                int(headers["x-orch-size"]),
                int(headers["x-orch-attempt"]),
            )
        except (KeyError, ValueError) as exc:
            raise DaemonError("The daemon's answer has no offset.", remedy=RESTART) from exc

    def archive(self, path: str, *, timeout_s: float) -> tuple[Message, bytes]:
        """A file to take away, and what is said of it (`name` and more)."""
        content, headers = self._whole("GET", path, None, None, timeout_s)
        return as_document(headers.get("x-orch-archive", "").encode("latin-1")), content

    def stream(
        self, method: str, path: str, body: Message | None = None, *, query: Query | None = None
    ) -> Iterator[Message]:
        """The messages of a stream as they come; its last message `error` is raised.

        The request is sent now, and what comes is read when it is asked for.
        """
        return self._messages(
            self._connected(_request(method, path, body, query), STREAM_SILENCE_S)
        )

    def _messages(self, sent: BinaryIO) -> Iterator[Message]:
        with sent:
            response = read_head(sent)
            for line in body_lines(response):
                message = as_document(line)
                if message.get("kind") == "error":
                    raise api_error(message)
                yield message

    def events(self) -> Iterator[tuple[str, Message]]:
        """Name and document of each server-sent event of /v1/events, until the daemon ends."""
        response = self._open("GET", "/v1/events", None, None, STREAM_SILENCE_S)
        name = "message"
        with response.stream:
            for line in body_lines(response):
                field, _, value = line.partition(b": ")
                if field == b"event":
                    name = value.decode()
                elif field == b"data":
                    yield name, as_document(value)

    def _whole(
        self,
        method: str,
        path: str,
        body: Message | None,
        query: Query | None,
        timeout_s: float | None,
    ) -> tuple[bytes, dict[str, str]]:
        response = self._open(method, path, body, query, timeout_s or self._timeout_s)
        with response.stream:
            return b"".join(body_bytes(response)), response.headers

    def _open(
        self,
        method: str,
        path: str,
        body: Message | None,
        query: Query | None,
        timeout_s: float,
    ) -> Response:
        """Send a request; the stream of the answer's body is the caller's to close."""
        stream = self._connected(_request(method, path, body, query), timeout_s)
        try:
            return read_head(stream)
        except BaseException:
            stream.close()
            raise

    def _connected(self, request: bytes, timeout_s: float) -> BinaryIO:
        """A stream of the answer's bytes to a request that was sent."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with connection:  # the stream keeps the descriptor until it is closed itself
            connection.settimeout(timeout_s)
            try:
                connection.connect(str(self.socket_path))
            except (BlockingIOError, TimeoutError) as exc:
                raise broken(TimeoutError()) from exc  # so many wait already
            except OSError as exc:
                raise NoDaemon(
                    f"No daemon answers at {self.socket_path} ({exc.strerror or exc}).",
                    remedy="`orch daemon start` starts one.",
                ) from exc
            _require_ours(connection, self.socket_path)
            try:
                connection.sendall(request)
            except OSError as exc:
                raise broken(exc) from exc
            return connection.makefile("rb")


def _require_ours(connection: socket.socket, path: Path) -> None:
    """Values of secrets go there: whoever made the socket first is not who it has to be."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    owner = int.from_bytes(raw[4:8], sys.byteorder)
    if owner not in {os.getuid(), 0}:
        raise DaemonError(
            f"User {owner} listens at {path}, and not a daemon of yours; nothing was sent.",
            remedy="If that user runs orch with this inventory, ask as that user; else find out "
            "how it came there, and remove it.",
        )


def quoted(words: str) -> str:
    """RUN or INCIDENT as it stands in a path; bytes that a terminal sent as no UTF-8 become `?`."""
    from urllib.parse import quote  # it loads more than this file

    return quote(words, safe="@", errors="replace")


def _request(method: str, path: str, body: Message | None, query: Query | None) -> bytes:
    asked = {key: value for key, value in (query or {}).items() if value is not None}
    target = path
    if asked:
        from urllib.parse import urlencode  # as above

        target = f"{path}?{urlencode(asked, errors='replace')}"
    content = b"" if body is None else json.dumps(body).encode()
    head = (
        f"{method} {target} HTTP/1.1\r\nHost: orch\r\nConnection: close\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
    )
    return head.encode("ascii") + content
