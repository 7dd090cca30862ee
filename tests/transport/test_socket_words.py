"""Errors of a connection are words: no number and no tuple of an address reaches a person."""

import asyncio
import socket

import pytest

from orchestrator.core.command import Command
from orchestrator.core.errors import Unreachable
from orchestrator.core.model import Host, Target
from orchestrator.transport.pool import Pool
from orchestrator.transport.socket_words import in_words


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ConnectionRefusedError(111, "Connect call failed ('::1', 1)"), "nothing listens there"),
        (socket.gaierror(-2, "Name or service not known"), "its name is not known here"),
        (socket.gaierror(-3, "Temporary failure"), "no name server answers here"),
        (OSError(113, "Connect call failed ('10.0.0.1', 22)"), "no route to host"),
        (TimeoutError(110, "Connect call failed"), "no answer in time"),
        (OSError("gone"), "gone"),
    ],
)
def test_an_error_in_words(error: OSError, words: str) -> None:
    """Each says why, and no more than that."""
    said = in_words(error)
    assert said.startswith(words)
    assert "Errno" not in said
    assert "Connect call" not in said


@pytest.mark.parametrize("hostname", ["127.0.0.1", "no-such-host.invalid"])
def test_a_host_that_cannot_be_reached_is_told_in_words(hostname: str, free_port: int) -> None:
    """A closed port and an unknown name."""
    host = Host(name="h", hostname=hostname, port=free_port, user="root")

    async def run() -> None:
        pool = Pool()
        try:
            await pool.transport(Target(name="t", host=host, runtime="none")).run(
                Command(argv=("true",))
            )
        finally:
            await pool.close()

    with pytest.raises(Unreachable) as met:
        asyncio.run(run())
    assert "cannot be reached" in str(met.value)
    assert "Errno" not in str(met.value)
