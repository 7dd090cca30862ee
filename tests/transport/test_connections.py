"""How many channels a connection carries, and when there is another connection."""

import asyncio
from dataclasses import dataclass, field

import pytest

from orchestrator.core.command import Command
from orchestrator.core.errors import Unreachable
from orchestrator.testing import FakeStreams, FakeTransport
from orchestrator.transport.base import Channel
from orchestrator.transport.connections import (
    CHANNELS_PER_CONNECTION,
    ChannelRefused,
    Connection,
    Connections,
)


async def _wait_for_end(streams: FakeStreams) -> int:
    while await streams.read():
        pass
    return 0


@dataclass
class FakeConnection:
    """A connection to a host that lets `most` channels on, as sshd's MaxSessions does."""

    most: int
    alive: bool = True
    fails: Unreachable | None = None
    """Raised by `start`, after which the connection is dead where it `dies`."""
    dies: bool = True
    starts: int = 0
    open_now: int = 0
    peak: int = 0
    channels: list[Channel] = field(default_factory=list)

    async def start(self, line: bytes, target: str) -> Channel:
        await asyncio.sleep(0)
        self.starts += 1
        if self.fails is not None:
            self.alive = not self.dies
            raise self.fails
        if self.open_now >= self.most:
            raise ChannelRefused("open failed")
        self.open_now += 1
        self.peak = max(self.peak, self.open_now)
        transport = FakeTransport(target, {}, default=_wait_for_end)
        channel = await transport.open(Command(argv=(line,)))
        return _Leaving(channel, self)  # type: ignore[return-value]

    async def close(self) -> None:
        self.alive = False


class _Leaving:
    def __init__(self, channel: Channel, connection: FakeConnection) -> None:
        self._channel, self._connection = channel, connection

    def __getattr__(self, name: str) -> object:
        return getattr(self._channel, name)

    async def close(self) -> None:
        self._connection.open_now -= 1
        await self._channel.close()


@dataclass
class FakeHost:
    """A host that counts who connects, and how many at the same time."""

    most: int = 10
    problem: Unreachable | None = None
    made: list[FakeConnection] = field(default_factory=list)
    connecting: int = 0
    peak_connecting: int = 0

    async def connect(self) -> Connection:
        self.connecting += 1
        self.peak_connecting = max(self.peak_connecting, self.connecting)
        await asyncio.sleep(0.01)
        self.connecting -= 1
        if self.problem is not None:
            raise self.problem
        self.made.append(FakeConnection(self.most))
        return self.made[-1]

    def lane(self, *, spare: int = 1) -> Connections:
        return Connections("pve1", self.connect, asyncio.Lock(), spare=spare)


async def _start(lane: Connections, count: int) -> list[Channel]:
    return list(await asyncio.gather(*(lane.start(b"x", "ct200") for _ in range(count))))


async def test_eight_channels_share_a_connection() -> None:
    """Up to eight commands run on one connection; the ninth opens a second one."""
    host = FakeHost()
    lane = host.lane()
    channels = await _start(lane, CHANNELS_PER_CONNECTION)
    assert len(host.made) == 1
    channels += await _start(lane, 1)
    assert [one.open_now for one in host.made] == [8, 1]
    await asyncio.gather(*(channel.close() for channel in channels))
    await lane.close()


async def test_connections_are_opened_one_after_the_other() -> None:
    """However many commands start at once, never two connections are being opened."""
    host = FakeHost()
    lane = host.lane()
    channels = await _start(lane, 40)
    assert (len(host.made), host.peak_connecting) == (5, 1)
    await asyncio.gather(*(channel.close() for channel in channels))
    await lane.close()


async def test_a_host_that_lets_fewer_on_is_learned() -> None:
    """`open failed` leads to another connection, and is not asked for again at each command."""
    host = FakeHost(most=3)
    lane = host.lane()
    channels = await _start(lane, 12)
    assert [one.open_now for one in host.made] == [3, 3, 3, 3]
    refused = sum(one.starts - 3 for one in host.made)
    channels += await _start(lane, 3)
    assert sum(one.starts - 3 for one in host.made) == refused
    await asyncio.gather(*(channel.close() for channel in channels))
    await lane.close()


async def test_a_host_that_lets_none_on() -> None:
    """A host that lets us in and runs nothing is said to do so, instead of connecting for ever."""
    lane = FakeHost(most=0).lane()
    with pytest.raises(Unreachable, match="refuses every command") as caught:
        await lane.start(b"x", "ct200")
    assert "MaxSessions" in str(caught.value)
    await lane.close()


async def test_spare_connections_are_closed() -> None:
    """When the commands have ended one connection stays open for the next, and no more."""
    host = FakeHost()
    lane = host.lane()
    for channel in await _start(lane, 20):
        await channel.close()
    assert [one.alive for one in host.made].count(True) == 1
    await lane.close()
    assert not any(one.alive for one in host.made)


async def test_a_bulk_connection_ends_with_its_use() -> None:
    """A lane without spare connections holds none while nothing runs."""
    host = FakeHost()
    lane = host.lane(spare=0)
    (channel,) = await _start(lane, 1)
    await channel.close()
    assert [one.alive for one in host.made] == [False]
    await lane.close()


async def test_a_connection_that_died_unnoticed_is_replaced() -> None:
    """The first command after a silent death goes over a fresh connection, without an error."""
    host = FakeHost()
    lane = host.lane()
    (first,) = await _start(lane, 1)
    host.made[0].fails = Unreachable("the connection was lost", target="ct200")
    (second,) = await _start(lane, 1)
    assert len(host.made) == 2
    await first.close()
    await second.close()
    await lane.close()


async def test_a_command_that_fails_on_a_live_connection() -> None:
    """An error that is not the connection's own is the caller's, and gives the place back."""
    host = FakeHost()
    lane = host.lane()
    (first,) = await _start(lane, 1)
    host.made[0].fails = Unreachable("no answer in time", target="ct200")
    host.made[0].dies = False
    for _ in range(2 * CHANNELS_PER_CONNECTION):
        with pytest.raises(Unreachable, match="no answer in time"):
            await lane.start(b"x", "ct200")
    assert len(host.made) == 1
    await first.close()
    await lane.close()


async def test_a_connection_known_to_be_dead_is_not_used() -> None:
    """A connection that says it is dead is not asked at all."""
    host = FakeHost()
    lane = host.lane()
    (first,) = await _start(lane, 1)
    host.made[0].alive = False
    (second,) = await _start(lane, 1)
    assert [one.starts for one in host.made] == [1, 1]
    await first.close()
    await second.close()
    await lane.close()


async def test_one_failure_is_everybodys() -> None:
    """All that wait for the same connection hear why it failed, after one attempt."""
    host = FakeHost(problem=Unreachable("no route", target="pve1"))
    lane = host.lane()
    asked = [lane.start(b"x", "ct200") for _ in range(10)]
    results = await asyncio.gather(*asked, return_exceptions=True)
    assert {str(result) for result in results} == {"no route"}
    assert host.peak_connecting == 1
    host.problem = None
    (channel,) = await _start(lane, 1)
    await channel.close()
    await lane.close()
