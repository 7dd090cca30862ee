"""Who may reach the API's port or socket and has no right to it: floods, slow ones, impostors."""

import asyncio
import http.client
import os
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from aiohttp import web

from orchestrator.api.client import Client
from orchestrator.api.listening import checked_door
from orchestrator.api.location import Location, locate
from orchestrator.api.porch import MOST_CONNECTIONS, Porch
from orchestrator.core.errors import DaemonError
from tests.cli.canned import CannedDaemon
from tests.conftest import XdgFolders
from tests.lab.certificate import self_signed
from tests.link.fakes import until

TOKEN = "t0ken-of-a-test-which-is-long"


@pytest.fixture
def location(short_folder: Path, xdg: XdgFolders) -> Location:
    """An inventory, and where its daemon would be."""
    path = short_folder / "inventory.yaml"
    path.write_text("version: 1\n")
    return locate(path, os.environ)


@pytest.fixture(params=["clear", "tls"])
def door(
    request: pytest.FixtureRequest, location: Location, tmp_path: Path
) -> Iterator[tuple[int, ssl.SSLContext | None]]:
    """The port of an API with canned answers, and how to trust it."""
    pem = str(self_signed(tmp_path)) if request.param == "tls" else None
    trusting = ssl.create_default_context(cafile=pem) if pem else None
    with CannedDaemon(location) as daemon:
        opened = checked_door("127.0.0.1:0", pem, pem, TOKEN)
        yield daemon._call(daemon._server.listen(opened)), trusting


def status_of(
    port: int, tls: ssl.SSLContext | None, headers: dict[str, str], path: str = "/v1/daemon"
) -> int | None:
    """What a request is answered with; None where nobody took it."""
    connection = (
        http.client.HTTPSConnection("127.0.0.1", port, timeout=10, context=tls)
        if tls
        else http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    )
    try:
        connection.request("GET", path, headers=headers)
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def is_closed(client: socket.socket) -> bool:
    """Whether the other side has hung up."""
    client.setblocking(False)
    try:
        return client.recv(4096) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def test_a_flood_of_slow_connections_costs_a_bounded_number_and_passes(
    door: tuple[int, ssl.SSLContext | None],
) -> None:
    """More than the limit are hung up on, the rest soon too; then the holder of the token is in."""
    port, tls = door
    with ExitStack() as stack:
        clients = []
        for number in range(MOST_CONNECTIONS + 60):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=10))
            # Every other one says nothing at all, as one that never begins its handshake.
            client.sendall(b"GET /v1/daemon HTTP/1.1\r\nX-Slow: " if number % 2 else b"")
            clients.append(client)
        deadline = time.monotonic() + 60
        while sum(map(is_closed, clients)) < 50:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        while status_of(port, tls, {"Authorization": f"Bearer {TOKEN}"}) != 200:
            assert time.monotonic() < deadline
            time.sleep(0.2)
        while not all(map(is_closed, clients)):
            assert time.monotonic() < deadline
            time.sleep(0.2)


async def test_beyond_a_number_nobody_is_let_in() -> None:
    """However long each may stay: a bounded number of connections is held, the rest hung up on."""

    async def answer(_: web.BaseRequest) -> web.Response:
        return web.Response()

    server = web.Server(answer, keepalive_timeout=600)
    porch = Porch(server, checked_door("127.0.0.1:0", None, None, TOKEN))
    port = await porch.open()
    readers, writers = [], []
    try:
        for _ in range(MOST_CONNECTIONS + 60):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            readers.append(reader)
            writers.append(writer)
        # Each has been held or hung up on by then, and nobody's time is over.
        await until(lambda: len(server.connections) + num_ended(readers) == len(readers))
        assert MOST_CONNECTIONS * 0.9 < len(server.connections) <= MOST_CONNECTIONS
    finally:
        for writer in writers:
            writer.close()
        await porch.close()
        await server.shutdown(1.0)


def num_ended(readers: list[asyncio.StreamReader]) -> int:
    """How many were hung up on."""
    return sum(reader.at_eof() for reader in readers)


def test_nobody_says_by_tcp_who_asks(door: tuple[int, ssl.SSLContext | None]) -> None:
    """The name in the journal is the connection's own: a header that gives another is refused."""
    port, tls = door
    key = {"Authorization": f"Bearer {TOKEN}"}
    assert status_of(port, tls, key) == 200
    assert status_of(port, tls, {**key, "X-Orch-Asked-By": "root on pve1"}) == 400
    assert status_of(port, tls, {"X-Orch-Asked-By": "root on pve1"}) == 401


SMUGGLED = [
    b"GET /v1/daemon HTTP/1.1\r\nHost: x\r\n%sContent-Length: 0\r\nContent-Length: 30\r\n\r\n",
    b"POST /v1/run HTTP/1.1\r\nHost: x\r\n%sTransfer-Encoding: chunked\r\n"
    b"Content-Length: 5\r\n\r\n0\r\n\r\n",
    b"POST /v1/run HTTP/1.1\r\nHost: x\r\n%sTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    b"GET /v1/daemon HTTP/1.1\r\nHost: x\r\n%sX: " + b"y" * 20_000 + b"\r\n\r\n",
    b"GET /v1/daemon HTTP/1.1\r\nHost: x\r\n%s" + b"X: y\r\n" * 2000 + b"\r\n",
    b"GET /" + b"y" * 20_000 + b" HTTP/1.1\r\nHost: x\r\n%s\r\n",
    b"GET /v1/daemon HTTP/1.1\r\nHost: x\r\n%sX : y\r\n\r\n",
    b"GET /v1/daemon HTTP/1.1\nHost: x\n%sX: a\rAuthorization: b\n\n",
    b"GET /v1/daemon HTTP/9.9\r\nHost: x\r\n%s\r\n",
]


@pytest.mark.parametrize("request_text", SMUGGLED, ids=lambda text: repr(text[-40:]))
def test_heads_that_are_read_in_two_ways_or_have_no_end_are_refused(
    door: tuple[int, ssl.SSLContext | None], request_text: bytes
) -> None:
    """Two lengths, a length and pieces, blanks before a colon, and what is too large: no 200."""
    port, tls = door
    key = f"Authorization: Bearer {TOKEN}\r\n".encode()
    raw = socket.create_connection(("127.0.0.1", port), timeout=10)
    with tls.wrap_socket(raw, server_hostname="127.0.0.1") if tls else raw as client:
        try:
            client.sendall(request_text % key)
            answer = client.recv(4096)
        except OSError:
            answer = b""
    assert not answer.startswith(b"HTTP/1.1 200")
    assert status_of(port, tls, {"Authorization": f"Bearer {TOKEN}"}) == 200


def test_a_page_of_a_browser_gets_nowhere(door: tuple[int, ssl.SSLContext | None]) -> None:
    """Whatever name led here, a page has no token, and may not ask to send one (no CORS)."""
    port, tls = door
    for host in ("evil.example", "127.0.0.1"):
        asked = {"Host": host, "Origin": "http://evil.example", "Cookie": f"token={TOKEN}"}
        assert status_of(port, tls, asked) == 401
        assert status_of(port, tls, asked, f"/v1/daemon?token={TOKEN}") == 401


@pytest.mark.parametrize("method", ["OPTIONS", "GET", "HEAD"])
def test_no_page_may_send_the_token(door: tuple[int, ssl.SSLContext | None], method: str) -> None:
    """Asked by a browser whether a page may (CORS), the API never says yes: no such header."""
    port, tls = door
    connection = (
        http.client.HTTPSConnection("127.0.0.1", port, timeout=10, context=tls)
        if tls
        else http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    )
    asking = {"Access-Control-Request-Method": "GET"}
    asking["Access-Control-Request-Headers"] = "authorization"
    for key in ({}, {"Authorization": f"Bearer {TOKEN}"}):
        origin = {"Origin": "http://evil.example"}
        connection.request(method, "/v1/daemon", headers={**origin, **asking, **key})
        answer = connection.getresponse()
        answer.read()
        assert key or answer.status == 401
        said = [name for name, _ in answer.getheaders() if name.lower().startswith("access-")]
        assert said == []
    connection.close()


IMPOSTOR = """
import os, socket, sys
os.setgid(65534); os.setuid(65534)
server = socket.socket(socket.AF_UNIX)
server.bind(sys.argv[1]); os.chmod(sys.argv[1], 0o666); server.listen(4)
print("listens", flush=True)
client, _ = server.accept()
print(client.recv(65536), flush=True)
"""


@pytest.mark.skipif(os.getuid() != 0, reason="becomes another user")
def test_nothing_is_said_to_another_users_socket(short_folder: Path) -> None:
    """Who made the socket first would be told secrets: a command looks whose it is, and refuses."""
    short_folder.chmod(0o777)
    path = short_folder / "s.sock"
    argv = [sys.executable, "-c", IMPOSTOR, str(path)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as impostor:
        assert impostor.stdout is not None
        assert impostor.stdout.readline() == "listens\n"
        with pytest.raises(DaemonError, match=r"User 65534 listens at .* nothing was sent"):
            Client(path).call("PUT", "/v1/environment", {"MY_TOKEN": "s3cret"})
        assert impostor.stdout.read() == "b''\n"
