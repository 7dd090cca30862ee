"""The client reads what a daemon sends, whole, in pieces, or broken, and never hangs on it."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from orchestrator.api.client import Client
from orchestrator.core.errors import ApiError, DaemonError, NoDaemon

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


@contextmanager
def answering(folder: Path, *pieces: bytes) -> Iterator[Client]:
    """A client of a server that sends these pieces to whatever it is asked, and hangs up."""
    path = folder / "s.sock"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen(1)

    def answer() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(65_536)
            for piece in pieces:
                connection.sendall(piece)

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        yield Client(path, timeout_s=20.0)
    finally:
        thread.join(timeout=20)
        listener.close()


def test_document_by_length(short_folder: Path) -> None:
    """A body of a stated length is read whole, however it is cut on the way."""
    with answering(short_folder, HEAD + b"Content-Length: 7\r\n\r\n{", b'"a"', b":1}") as client:
        assert client.get("/x") == {"a": 1}


def test_document_in_chunks(short_folder: Path) -> None:
    """Chunks are joined; their extensions are passed over."""
    body = b'Transfer-Encoding: chunked\r\n\r\n3;x=y\r\n{"a\r\n4\r\n":1}\r\n0\r\n\r\n'
    with answering(short_folder, HEAD + body) as client:
        assert client.get("/x") == {"a": 1}


def test_document_until_the_end(short_folder: Path) -> None:
    """A body without a length ends with the connection."""
    with answering(short_folder, HEAD + b'\r\n{"a":1}') as client:
        assert client.get("/x") == {"a": 1}


def test_stream_lines_may_lie_across_chunks(short_folder: Path) -> None:
    """Messages are lines, not chunks; empty lines are signs of life."""
    body = b'5\r\n{"kin\r\n12\r\nd":"a"}\n\n{"kind":\r\n5\r\n"b"}\n\r\n0\r\n\r\n'
    with answering(short_folder, HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + body) as client:
        assert [message["kind"] for message in client.stream("GET", "/x")] == ["a", "b"]


def test_stream_error_is_raised_with_its_code(short_folder: Path) -> None:
    """The last message `error` becomes the exception that it was."""
    line = b'{"kind":"error","message":"gone","remedy":"Look.","exit_code":4}\n'
    with (
        answering(short_folder, HEAD + b"\r\n" + line) as client,
        pytest.raises(ApiError, match=r"gone Look\.") as caught,
    ):
        list(client.stream("GET", "/x"))
    assert caught.value.exit_code == 4


def test_refusal_is_raised_with_its_checks(short_folder: Path) -> None:
    """A status of 4xx or 5xx carries the daemon's error document."""
    body = b'{"error":{"message":"no","remedy":null,"exit_code":1,"checks":[{"ok":false}]}}'
    head = b"HTTP/1.1 409 Conflict\r\nContent-Length: %d\r\n\r\n" % len(body)
    with answering(short_folder, head + body) as client, pytest.raises(ApiError) as caught:
        client.get("/x")
    assert caught.value.checks == ({"ok": False},)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"SSH-2.0-OpenSSH\r\n",
        HEAD + b"Content-Length: 10\r\n\r\n{}",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\n{}",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        HEAD + b"Content-Length: 2\r\n\r\n[]",
        HEAD + b"Content-Length: 3\r\n\r\n{a}",
        b"HTTP/1.1 500 Oops\r\nContent-Length: 4\r\n\r\noops",
    ],
)
def test_broken_answers_are_daemon_errors(answer: bytes, short_folder: Path) -> None:
    """Whatever is no answer becomes one sentence, never a traceback or half a document."""
    with answering(short_folder, answer) as client, pytest.raises(DaemonError):
        client.get("/x")


def test_nobody_listening_is_said(short_folder: Path) -> None:
    """No socket, and a socket that nobody listens on, are the same: no daemon."""
    with pytest.raises(NoDaemon, match="orch daemon start"):
        Client(short_folder / "none.sock").get("/x")
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(str(short_folder / "dead.sock"))
    dead.close()
    with pytest.raises(NoDaemon):
        Client(short_folder / "dead.sock").get("/x")


def test_silence_ends_a_call(short_folder: Path) -> None:
    """A daemon that takes a call and says nothing is given up on."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(short_folder / "mute.sock"))
    listener.listen(1)
    with listener, pytest.raises(DaemonError, match="no sign of life"):
        Client(short_folder / "mute.sock", timeout_s=0.2).get("/x")


@pytest.mark.parametrize("read", [0, 1, 65_536])
def test_a_daemon_that_goes_as_it_is_asked_is_none(short_folder: Path, read: int) -> None:
    """Killed this moment it hangs up on who is connected: a command then starts the next one."""
    path = short_folder / "s.sock"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen(1)

    def go() -> None:
        connection, _ = listener.accept()
        connection.recv(read)
        listener.close()
        connection.close()

    thread = threading.Thread(target=go)
    thread.start()
    with pytest.raises(NoDaemon):
        Client(path, timeout_s=20.0).daemon_view()
    thread.join(timeout=20)
