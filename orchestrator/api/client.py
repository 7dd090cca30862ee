"""Calls the daemon over its unix socket: small HTTP/1.1 by hand, for the CLI and the dashboard.

Loads `socket` and `json` and little else, since `orch status` must be as quick as the shell that
asks. Starts no daemon and knows no commands; every failure is an OrchError.
"""

import json
import os
import socket
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from orchestrator.core.errors import ApiError, DaemonError, NoDaemon

ANSWER_TIMEOUT_S = 60.0
ALIVE_WITHIN_S = 10.0
"""A daemon that is alive tells of itself by then, however busy it is."""
STREAM_SILENCE_S = 60.0
"""A stream has a sign of life every 15 s; four missed ones mean that the daemon is stuck."""

Query = Mapping[str, str | int | float | None]
Message = dict[str, Any]


class DaemonSilent(DaemonError):  # noqa: N818  says what happened
    """Something listens and says nothing in time."""


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


class _Response(NamedTuple):
    status: int
    headers: dict[str, str]
    stream: BinaryIO


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
        return _document(raw)

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
            raise DaemonError("The daemon's answer has no offset.", remedy=_RESTART) from exc

    def archive(self, path: str, *, timeout_s: float) -> tuple[Message, bytes]:
        """A file to take away, and what is said of it (`name` and more)."""
        content, headers = self._whole("GET", path, None, None, timeout_s)
        return _document(headers.get("x-orch-archive", "").encode("latin-1")), content

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
            response = _head(sent)
            for line in _lines(response):
                message = _document(line)
                if message.get("kind") == "error":
                    raise _api_error(message)
                yield message

    def events(self) -> Iterator[tuple[str, Message]]:
        """Name and document of each server-sent event of /v1/events, until the daemon ends."""
        response = self._open("GET", "/v1/events", None, None, STREAM_SILENCE_S)
        name = "message"
        with response.stream:
            for line in _lines(response):
                field, _, value = line.partition(b": ")
                if field == b"event":
                    name = value.decode()
                elif field == b"data":
                    yield name, _document(value)

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
            return b"".join(_chunks(response)), response.headers

    def _open(
        self,
        method: str,
        path: str,
        body: Message | None,
        query: Query | None,
        timeout_s: float,
    ) -> _Response:
        """Send a request; the stream of the answer's body is the caller's to close."""
        stream = self._connected(_request(method, path, body, query), timeout_s)
        try:
            return _head(stream)
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
                raise _broken(TimeoutError()) from exc  # so many wait already
            except OSError as exc:
                raise NoDaemon(
                    f"No daemon answers at {self.socket_path} ({exc.strerror or exc}).",
                    remedy="`orch daemon start` starts one.",
                ) from exc
            _require_ours(connection, self.socket_path)
            try:
                connection.sendall(request)
            except OSError as exc:
                raise _broken(exc) from exc
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


_RESTART = "`orch daemon stop`, then `orch daemon start`; its log is in the state folder."


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


def _head(stream: BinaryIO) -> _Response:
    """Read the answer's head; an answer that is an error is raised."""
    try:
        response = _status_and_headers(stream)
    except OSError as exc:
        raise _broken(exc) from exc
    if response.status >= 400:
        raise _refused(response)
    return response


def _status_and_headers(stream: BinaryIO) -> _Response:
    words = stream.readline(65_536).split(None, 2)
    if len(words) < 2 or not words[0].startswith(b"HTTP/1.") or not words[1].isdigit():
        raise DaemonError("The daemon ended the call without an answer.", remedy=_RESTART)
    headers: dict[str, str] = {}
    while (line := stream.readline(65_536)) not in {b"\r\n", b"\n", b""}:
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.strip().lower()] = value.strip()
    return _Response(int(words[1]), headers, stream)


def _chunks(response: _Response) -> Iterator[bytes]:
    """The body's bytes as they come, whichever way its length is told."""
    stream, headers = response.stream, response.headers
    try:
        if headers.get("transfer-encoding", "").lower() == "chunked":
            yield from _chunked(stream)
        elif "content-length" in headers:
            size = int(headers["content-length"])
            content = stream.read(size)
            if len(content) < size:
                raise _cut_short()
            yield content
        else:
            yield stream.read()
    except OSError as exc:
        raise _broken(exc) from exc


def _chunked(stream: BinaryIO) -> Iterator[bytes]:
    while True:
        size_line = stream.readline(1024)
        try:
            size = int(size_line.split(b";")[0], 16)
        except ValueError:
            raise _cut_short() from None
        chunk = stream.read(size)
        if len(chunk) < size:
            raise _cut_short()
        stream.readline(1024)
        if not size:
            return
        yield chunk


def _lines(response: _Response) -> Iterator[bytes]:
    """The body's lines that say something; empty ones are signs of life."""
    rest = b""
    for chunk in _chunks(response):
        *whole, rest = (rest + chunk).split(b"\n")
        yield from (line for line in whole if line)
    if rest:
        yield rest


def _document(raw: bytes) -> Message:
    try:
        document = json.loads(raw)
    except ValueError as exc:
        raise DaemonError("The daemon's answer is not JSON.", remedy=_RESTART) from exc
    if not isinstance(document, dict):
        raise DaemonError("The daemon's answer is no document.", remedy=_RESTART)
    return document


def _refused(response: _Response) -> Exception:
    said = _document(b"".join(_chunks(response))).get("error")
    return _api_error(said if isinstance(said, dict) else {"message": f"HTTP {response.status}"})


def _api_error(said: Message) -> ApiError:
    return ApiError(
        str(said.get("message", "the daemon refused")),
        remedy=said.get("remedy"),
        exit_code=int(said.get("exit_code") or 1),
        checks=tuple(said.get("checks") or ()),
        problems=tuple(said.get("problems") or ()),
    )


def _cut_short() -> DaemonError:
    return DaemonError("The daemon's answer was cut short: it ended.", remedy=_RESTART)


def _broken(exc: OSError) -> DaemonError:
    if isinstance(exc, TimeoutError):
        return DaemonSilent(
            "The daemon does not answer (no sign of life in time).", remedy=_RESTART
        )
    return DaemonError(f"The daemon stopped answering ({exc}).", remedy=_RESTART)
