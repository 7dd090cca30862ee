"""Reads what the daemon answers: small HTTP/1.1 by hand, to documents, lines and errors.

Loads `json` and little else, as client.py does. Sends nothing; every failure is an OrchError.
"""

import json
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

from orchestrator.core.errors import ApiError, DaemonError

Message = dict[str, Any]

RESTART = "`orch daemon stop`, then `orch daemon start`; its log is in the state folder."


class DaemonSilent(DaemonError):  # noqa: N818  says what happened
    """Something listens and says nothing in time."""


class DaemonGone(DaemonError):  # noqa: N818  says what happened
    """It hung up on a call: it was ending, or was killed."""


class Response(NamedTuple):
    """The head of an answer, and the stream that its body comes from."""

    status: int
    headers: dict[str, str]
    stream: BinaryIO


def read_head(stream: BinaryIO) -> Response:
    """Read the answer's head; an answer that is an error is raised."""
    try:
        response = _status_and_headers(stream)
    except OSError as exc:
        raise broken(exc) from exc
    if response.status >= 400:
        raise _refused(response)
    return response


def _status_and_headers(stream: BinaryIO) -> Response:
    words = stream.readline(65_536).split(None, 2)
    if not words:
        raise DaemonGone("The daemon ended the call without an answer.", remedy=RESTART)
    if len(words) < 2 or not words[0].startswith(b"HTTP/1.") or not words[1].isdigit():
        raise DaemonError("The daemon's answer is not HTTP.", remedy=RESTART)
    headers: dict[str, str] = {}
    while (line := stream.readline(65_536)) not in {b"\r\n", b"\n", b""}:
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.strip().lower()] = value.strip()
    return Response(int(words[1]), headers, stream)


def body_bytes(response: Response) -> Iterator[bytes]:
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
        raise broken(exc) from exc


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


def body_lines(response: Response) -> Iterator[bytes]:
    """The body's lines that say something; empty ones are signs of life."""
    rest = b""
    for chunk in body_bytes(response):
        *whole, rest = (rest + chunk).split(b"\n")
        yield from (line for line in whole if line)
    if rest:
        yield rest


def as_document(raw: bytes) -> Message:
    """One whole message; DaemonError where it is none."""
    try:
        document = json.loads(raw)
    except ValueError as exc:
        raise DaemonError("The daemon's answer is not JSON.", remedy=RESTART) from exc
    if not isinstance(document, dict):
        raise DaemonError("The daemon's answer is no document.", remedy=RESTART)
    return document


def _refused(response: Response) -> Exception:
    said = as_document(b"".join(body_bytes(response))).get("error")
    return api_error(said if isinstance(said, dict) else {"message": f"HTTP {response.status}"})


def api_error(said: Message) -> ApiError:
    """The error of which the daemon told."""
    return ApiError(
        str(said.get("message", "the daemon refused")),
        remedy=said.get("remedy"),
        exit_code=int(said.get("exit_code") or 1),
        checks=tuple(said.get("checks") or ()),
        problems=tuple(said.get("problems") or ()),
    )


def _cut_short() -> DaemonError:
    return DaemonError("The daemon's answer was cut short: it ended.", remedy=RESTART)


def broken(exc: OSError) -> DaemonError:
    """The error of a call whose connection failed."""
    if isinstance(exc, TimeoutError):
        return DaemonSilent("The daemon does not answer (no sign of life in time).", remedy=RESTART)
    return DaemonGone(f"The daemon stopped answering ({exc}).", remedy=RESTART)
