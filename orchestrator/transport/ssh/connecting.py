"""The way to a host over ssh: past its jumps, let in, and left when it is stuck."""

import asyncio
import contextlib

import asyncssh
from asyncssh.constants import MSG_IGNORE
from asyncssh.packet import SSHPacketLogger

from orchestrator.clock import SystemClock
from orchestrator.core.errors import AuthRefused, HostKeyRefused
from orchestrator.core.model import Host
from orchestrator.transport.base import Channel
from orchestrator.transport.connections import ChannelRefused, Connection
from orchestrator.transport.door import Door, Wire
from orchestrator.transport.openssh import SshSettings, resolve
from orchestrator.transport.ssh.algorithms import to_use
from orchestrator.transport.ssh.channel import CLOSE_WITHIN_S, SshChannel
from orchestrator.transport.ssh.keys import (
    HostKey,
    Witness,
    own_keys,
    shown,
    trusted_keys,
)
from orchestrator.transport.ssh.refusals import translated

MET_WITHIN_S = 20.0
CONNECT_WITHIN_S = 20.0
"""Counted from when the host was met: one that comes back at the last moment has all of it."""
OPEN_WITHIN_S = 15.0
KEEPALIVE_S = 5.0
KEEPALIVES_LOST = 2
"""A dead link is found after (2 + 1) * 5 s."""

STUCK_LOOK_S = 1.0
STUCK_RETRANSMITS = 2
STUCK_GRACE_S = 0.3
"""For what the host has to say once it can be reached again."""


async def untrusted_key(host: Host) -> HostKey | None:
    """The first key on the way to a host that known_hosts does not accept; None: all are trusted.

    A host behind jumps is asked only once its jumps are trusted. TargetError where the way ends
    before, or where a line of known_hosts forbids the key (@revoked).
    """
    settings = await resolve(host)
    async with contextlib.AsyncExitStack() as stack:
        way: _Way = Door()
        for hop in (*settings.jumps, settings):
            witness = Witness()
            try:
                way = connection = await _connect(host.name, hop, way, witness)
            except HostKeyRefused:
                if witness.refused is None:
                    raise
                return shown(hop, witness.refused)
            except AuthRefused:
                if hop is not settings:
                    raise
                return None  # its key was accepted before it refused ours
            stack.callback(connection.close)
    return None


async def connect(host: Host, door: Door) -> Connection:
    """Connect to a host, past its jumps, and be let in; `door` is that of its first hop.

    HostKeyRefused, AuthRefused, or Unreachable; each says what a person can do.
    """
    settings = await resolve(host)
    stack = contextlib.AsyncExitStack()
    hops: list[asyncssh.SSHClientConnection] = []
    try:
        for hop in (*settings.jumps, settings):
            hops.append(await _connect(host.name, hop, hops[-1] if hops else door))
            if hop is not settings:
                stack.callback(hops[-1].close)
    except BaseException:
        await stack.aclose()
        raise
    made = _SshConnection(host.name, settings, hops[-1], stack)
    first = (settings.jumps or (settings,))[0]
    if first.proxy_command is None:
        made.leave_when_stuck(hops[0], door, first)
    return made


_Way = asyncssh.SSHClientConnection | Door
"""Past a hop that is connected, or straight."""


class _SshConnection:
    def __init__(
        self,
        host: str,
        settings: SshSettings,
        connection: asyncssh.SSHClientConnection,
        stack: contextlib.AsyncExitStack,
    ) -> None:
        self._host, self._settings = host, settings
        self._connection, self._stack = connection, stack
        self._leaving: asyncio.Task[None] | None = None

    def leave_when_stuck(
        self, first: asyncssh.SSHClientConnection, door: Door, settings: SshSettings
    ) -> None:
        """Give it up once its first hop answers a new connection while this one still waits.

        Behind a cut of ten seconds a connection waits ten more before the kernel tries again.
        """
        leaving = self._leave_when_stuck(first, door, settings)
        self._leaving = asyncio.create_task(leaving, name=f"way {self._host}")

    async def _leave_when_stuck(
        self, first: asyncssh.SSHClientConnection, door: Door, settings: SshSettings
    ) -> None:
        lively, clock = False, SystemClock()
        while self.alive:
            await clock.rest(STUCK_LOOK_S)
            wire = Wire.of(first.get_extra_info("socket"))
            if wire is None:
                return
            if wire.retransmits >= STUCK_RETRANSMITS:
                await door.answers(settings.hostname, settings.port)
                await asyncio.sleep(STUCK_GRACE_S)
                wire = Wire.of(first.get_extra_info("socket"))
                if wire is None or wire.silent_s >= STUCK_GRACE_S:
                    first.abort()
            elif lively and wire.silent_s >= STUCK_LOOK_S:
                # Has it nothing to say, or does nothing come through? The far kernel answers this.
                first.send_debug("")
            lively = wire is not None and wire.silent_s < STUCK_LOOK_S

    @property
    def alive(self) -> bool:
        return not self._connection.is_closed()

    async def start(self, line: bytes, target: str) -> Channel:
        try:
            with translated(self._host, self._settings):
                async with asyncio.timeout(OPEN_WITHIN_S):
                    child: asyncssh.SSHClientProcess[bytes] = await self._connection.create_process(
                        line,
                        encoding=None,
                        request_pty=False,
                    )
        except asyncssh.ChannelOpenError as exc:
            raise ChannelRefused(str(exc)) from exc
        return SshChannel(child, target)

    async def close(self) -> None:
        if self._leaving is not None:
            self._leaving.cancel()
        self._connection.close()
        try:
            async with asyncio.timeout(CLOSE_WITHIN_S):
                await self._connection.wait_closed()
        except TimeoutError:
            self._connection.abort()
        await self._stack.aclose()


async def _connect(
    name: str,
    settings: SshSettings,
    way: _Way,
    witness: "Witness | None" = None,
) -> asyncssh.SSHClientConnection:
    keys, complaints = own_keys(settings)
    trusted = trusted_keys(settings)
    witness = witness or Witness()
    agent = settings.agent if not settings.identities_only or keys.identities else None
    with translated(name, settings, witness, trusted, complaints):
        met = None
        if isinstance(way, Door) and settings.proxy_command is None:
            async with asyncio.timeout(MET_WITHIN_S):
                met = await way.open(settings.hostname, settings.port)
        async with asyncio.timeout(CONNECT_WITHIN_S):
            connection, _ = await asyncssh.create_connection(
                lambda: witness,
                settings.hostname,
                settings.port,
                username=settings.user,
                sock=met,
                tunnel=None if isinstance(way, Door) else way,
                proxy_command=_proxy(settings),
                config=None,
                known_hosts=trusted,
                **to_use(name, settings, trusted),
                host_key_alias=settings.host_key_alias,
                client_keys=keys.pairs if keys.pairs or agent else None,
                agent_path=agent,
                agent_identities=keys.identities if settings.identities_only else None,
                preferred_auth="publickey",
                keepalive_interval=KEEPALIVE_S,
                keepalive_count_max=KEEPALIVES_LOST,
            )
    _without_fillers(connection)
    return connection


def _without_fillers(connection: asyncssh.SSHClientConnection) -> None:
    """Leave out the empty packet that asyncssh sends before each other one, where it guards none.

    It hides the next vector of CBC ciphers, and is half of the time that a large transfer takes.
    """
    if connection.get_extra_info("send_cipher", "").endswith("-cbc"):
        return
    send = connection.send_packet

    def send_packet(pkttype: int, *args: bytes, handler: SSHPacketLogger | None = None) -> None:
        if pkttype != MSG_IGNORE:
            send(pkttype, *args, handler=handler)

    connection.send_packet = send_packet  # type: ignore[method-assign]  # there is no option for it


def _proxy(settings: SshSettings) -> list[str] | None:
    """ssh gives a ProxyCommand to the user's shell, so that it may be a whole line."""
    command = settings.proxy_command
    return None if command is None else ["/bin/sh", "-c", command]
