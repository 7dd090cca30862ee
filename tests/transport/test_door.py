"""Doors: who is met at once, who is waited for, and what becomes of a connection behind a cut."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator

import pytest

from orchestrator.clock import SystemClock
from orchestrator.core.model import LinkState, Target
from orchestrator.link.link import Link
from orchestrator.transport.door import Door, Wire
from orchestrator.transport.pool import Pool
from tests.lab.declared import declared
from tests.lab.lab import Lab

DEADLINE_S = 30.0
LOOPBACK = "127.0.0.1"


@pytest.fixture
def shut() -> Iterator[socket.socket]:
    """A port of ours on which nobody listens yet."""
    with socket.socket() as bound:
        bound.bind((LOOPBACK, 0))
        yield bound


@pytest.fixture
def door() -> Iterator[Door]:
    """A door of this test."""
    made = Door()
    yield made
    made.close()


def port_of(bound: socket.socket) -> int:
    """The port that a socket has."""
    port: int = bound.getsockname()[1]
    return port


async def test_a_refusal_is_told_at_once(shut: socket.socket, door: Door) -> None:
    """Where the host is there and nobody listens, `open` does not try again by itself."""
    with pytest.raises(ConnectionRefusedError):
        async with asyncio.timeout(DEADLINE_S):
            await door.open(LOOPBACK, port_of(shut))


async def test_who_comes_back_is_met(shut: socket.socket, door: Door) -> None:
    """A host that was not there is waited for; its connection serves the next `open`."""
    with pytest.raises(ConnectionRefusedError):
        await door.open(LOOPBACK, port_of(shut))
    waiting = [asyncio.ensure_future(door.answers_again()) for _ in range(3)]
    done, _ = await asyncio.wait(waiting, timeout=0.2)
    assert not done
    shut.listen(5)
    async with asyncio.timeout(DEADLINE_S):
        await asyncio.gather(*waiting)
        opened = await door.open(LOOPBACK, port_of(shut))
    met, address = shut.accept()
    assert address == opened.getsockname()
    shut.setblocking(False)
    with pytest.raises(BlockingIOError):
        shut.accept()
    met.close()
    opened.close()


async def test_what_hung_up_meanwhile_is_not_used(shut: socket.socket, door: Door) -> None:
    """A connection that the host closed before anybody used it is opened anew."""
    with pytest.raises(ConnectionRefusedError):
        await door.open(LOOPBACK, port_of(shut))
    shut.listen(5)
    async with asyncio.timeout(DEADLINE_S):
        await door.answers_again()
        shut.accept()[0].close()
        opened = await door.open(LOOPBACK, port_of(shut))
    with shut.accept()[0] as met:
        met.sendall(b"SSH")
        assert opened.recv(3) == b"SSH"
    opened.close()


async def test_who_was_there_is_not_waited_for(shut: socket.socket, door: Door) -> None:
    """A host that could be connected to is knocked at by nobody, whatever failed behind that."""
    shut.listen(5)
    (await door.open(LOOPBACK, port_of(shut))).close()
    shut.accept()[0].close()
    waiting = asyncio.ensure_future(door.answers_again())
    done, _ = await asyncio.wait({waiting}, timeout=0.2)
    assert not done
    shut.setblocking(False)
    with pytest.raises(BlockingIOError):
        shut.accept()
    waiting.cancel()


async def test_one_that_leaves_does_not_stop_the_others(shut: socket.socket, door: Door) -> None:
    """Whoever begins to wait when the last one has just left is not cancelled with it."""
    with pytest.raises(ConnectionRefusedError):
        await door.open(LOOPBACK, port_of(shut))
    first = asyncio.ensure_future(door.answers_again())
    await asyncio.wait({first}, timeout=0.1)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    second = asyncio.ensure_future(door.answers_again())
    await asyncio.wait({second}, timeout=0.1)
    shut.listen(5)
    async with asyncio.timeout(DEADLINE_S):
        await second


async def test_a_wire_is_told_of(shut: socket.socket) -> None:
    """A connection on which all went well has nothing to repeat; a closed one tells nothing."""
    shut.listen(5)
    with socket.create_connection((LOOPBACK, port_of(shut))) as near, shut.accept()[0] as far:
        far.sendall(b"hello")
        assert near.recv(5) == b"hello"
        wire = Wire.of(near)
        assert wire is not None
        assert (wire.retransmits, wire.silent_s < DEADLINE_S) == (0, True)
    assert Wire.of(near) is None


@pytest.fixture
async def pool() -> AsyncIterator[Pool]:
    """A pool of this test."""
    made = Pool()
    yield made
    await made.close()


@pytest.mark.lab
@pytest.mark.xdist_group("lab-ssh")
async def test_a_connection_that_a_cut_left_behind(netns_lab: Lab, pool: Pool) -> None:
    """After a cut that no deadline of ours notices, a new connection is there before the old one.

    TCP alone would wait as long again as the cut was.
    """
    host = declared(netns_lab)
    target = Target(name="itself", host=host)
    link = Link(target, pool.transport(target), SystemClock(), "doors")
    async with asyncio.timeout(4 * DEADLINE_S):
        await link.start()
        first = link.hello
        netns_lab.host.cut()
        await asyncio.sleep(11.0)  # the length of the cut is what is tested
        assert link.state is not LinkState.UNREACHABLE
        netns_lab.host.restore()
        while link.hello == first or link.state is not LinkState.CONNECTED:
            await asyncio.sleep(0.05)
    assert await link.call("processes") is not None
    await link.close()
