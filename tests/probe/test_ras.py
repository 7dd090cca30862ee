"""NCCL's RAS service asked by its own protocol, against a service that plays a recording."""

import socketserver
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.probe import ras

STATUS = (
    Path(__file__).parent.parent / "captures" / "nccl_ras" / "h200x2-one-rank-missing.txt"
).read_bytes()


class Service(socketserver.StreamRequestHandler):
    """Says what NCCL 2.28 says to its own client, and then hangs up."""

    def handle(self) -> None:
        """One client."""
        assert self.rfile.readline() == b"CLIENT PROTOCOL 2\n"
        self.wfile.write(b"SERVER PROTOCOL 2\n")
        assert self.rfile.readline() == b"TIMEOUT 5\n"
        self.wfile.write(b"OK\n")
        assert self.rfile.readline() == b"VERBOSE STATUS\n"
        self.wfile.write(STATUS[:100])
        self.wfile.flush()
        self.wfile.write(STATUS[100:])


class Other(socketserver.StreamRequestHandler):
    """Somebody else's service on that port."""

    def handle(self) -> None:
        """One client."""
        self.wfile.write(b"220 mail ready\r\n")


@pytest.fixture(params=[Service])
def port(request: pytest.FixtureRequest) -> Iterator[int]:
    """A service on loopback."""
    with socketserver.TCPServer(("127.0.0.1", 0), request.param) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield int(server.server_address[1])
        server.shutdown()


def test_the_status_comes_whole(port: int) -> None:
    """Where the program was told of another address by NCCL_RAS_ADDR, that is asked."""
    assert ras.status([f"localhost:{port}"]) == STATUS.decode()
    assert ras.status(["", f"127.0.0.1:{port}"]) == STATUS.decode()


@pytest.mark.parametrize("port", [Other], indirect=True)
def test_what_is_no_nccl_says_nothing(port: int, free_port: int) -> None:
    """Neither another service nor a port that nobody listens on."""
    assert ras.status([f"localhost:{port}", f"localhost:{free_port}"]) is None


def test_the_usual_place_is_asked_last() -> None:
    """What the programs were told comes first, each once."""
    told = ["[::1]:4000", "", "nonsense", "host:4001", "host:4001"]
    assert ras.addresses(told) == [("::1", 4000), ("host", 4001), ("localhost", 28028)]
