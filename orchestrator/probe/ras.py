"""What NCCL says of a job that runs here: its RAS service, which NCCL 2.24 and later have.

Asks as NCCL's own `ncclras -v` does, over TCP on this machine alone; changes nothing.
"""

import socket
import time
from collections.abc import Iterable

PORT = 28028
HELLO = b"CLIENT PROTOCOL 2\n"
ANSWER_S = 5
"""How long NCCL is to wait for a rank that does not answer."""
WITHIN_S = 15.0
MOST_BYTES = 256 * 1024


def addresses(told: Iterable[str]) -> list[tuple[str, int]]:
    """Where to ask: what NCCL_RAS_ADDR says of the programs, then NCCL's own default."""
    found = []
    for text in told:
        host, _, port = text.rpartition(":")
        if port.isdigit():
            found.append((host.strip("[]") or "localhost", int(port)))
    return list(dict.fromkeys([*found, ("localhost", PORT)]))


def status(told: Iterable[str] = ()) -> str | None:
    """The verbose status of the first service that answers; None where none does."""
    for address in addresses(told):
        try:
            said = _ask(address)
        except OSError:
            continue
        if said is not None:
            return said
    return None


def _ask(address: tuple[str, int]) -> str | None:
    deadline = time.monotonic() + WITHIN_S
    with socket.create_connection(address, timeout=2.0) as connection:
        connection.settimeout(WITHIN_S)
        connection.sendall(HELLO)
        if not _line(connection).startswith(b"SERVER PROTOCOL"):
            # Something else has the port.
            return None
        connection.sendall(b"TIMEOUT %d\n" % ANSWER_S)
        _line(connection)
        connection.sendall(b"VERBOSE STATUS\n")
        text = b""
        while len(text) < MOST_BYTES and time.monotonic() < deadline:
            try:
                chunk = connection.recv(65536)
            except OSError:
                break
            if not chunk:
                break
            text += chunk
    return text.decode("utf-8", "replace") or None


def _line(connection: socket.socket) -> bytes:
    line = b""
    while not line.endswith(b"\n") and len(line) < 1024:
        byte = connection.recv(1)
        if not byte:
            break
        line += byte
    return line
