"""SSH by asyncssh: connections, channels, host keys. No other file imports asyncssh.

Owns the translation of every asyncssh error into a TargetError with its remedy. Who shares a
connection is connections.py's, what ~/.ssh/config says is openssh.py's.
"""

import asyncio
import base64
import contextlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncssh

from orchestrator.core.errors import AuthRefused, HostKeyRefused, Unreachable
from orchestrator.core.model import Host
from orchestrator.transport.base import Channel
from orchestrator.transport.connections import ChannelRefused, Connection
from orchestrator.transport.door import Door, Wire
from orchestrator.transport.openssh import SshSettings, resolve
from orchestrator.transport.running import Tail

CONNECT_WITHIN_S = 20.0
OPEN_WITHIN_S = 15.0
KEEPALIVE_S = 5.0
KEEPALIVES_LOST = 2
"""A dead link is found after (2 + 1) * 5 s."""

_CIPHERS_FIRST = "^*-gcm@openssh.com"
"""In Python these cost a fifth of what asyncssh would take, chacha20; the others stay."""

STUCK_LOOK_S = 1.0
STUCK_RETRANSMITS = 2
STUCK_GRACE_S = 0.3
"""For what the host has to say once it can be reached again."""

_CLOSE_WITHIN_S = 2.0
_WRITE_BYTES = 128 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class HostKey:
    """A key that a host showed, not trusted by anything yet."""

    address: str
    """HOST:PORT that showed it."""
    key_type: str
    fingerprint: str
    """As `ssh` prints it: SHA256:..."""
    known_hosts_line: str
    known_hosts_file: str
    """Where the line belongs."""
    known_as: str
    """The name in front of the line."""
    known: tuple[str, ...]
    """Fingerprints that known_hosts has for it: with any, the key has changed."""


async def untrusted_key(host: Host) -> HostKey | None:
    """The first key on the way to a host that known_hosts does not accept; None: all are trusted.

    A host behind jumps is asked only once its jumps are trusted. TargetError where the way ends
    before, or where a line of known_hosts forbids the key (@revoked).
    """
    settings = await resolve(host)
    async with contextlib.AsyncExitStack() as stack:
        way: _Way = Door()
        for hop in (*settings.jumps, settings):
            witness = _Witness()
            try:
                way = connection = await _connect(host.name, hop, way, witness)
            except HostKeyRefused:
                if witness.refused is None:
                    raise
                return _shown(hop, witness.refused)
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


# --- connections ---------------------------------------------------------------------------------


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
        lively = False
        while self.alive:
            await asyncio.sleep(STUCK_LOOK_S)
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
            with _translated(self._host, self._settings):
                async with asyncio.timeout(OPEN_WITHIN_S):
                    child: asyncssh.SSHClientProcess[bytes] = await self._connection.create_process(
                        line,
                        encoding=None,
                        request_pty=False,
                    )
        except asyncssh.ChannelOpenError as exc:
            raise ChannelRefused(str(exc)) from exc
        return _SshChannel(child, target)

    async def close(self) -> None:
        if self._leaving is not None:
            self._leaving.cancel()
        self._connection.close()
        try:
            async with asyncio.timeout(_CLOSE_WITHIN_S):
                await self._connection.wait_closed()
        except TimeoutError:
            self._connection.abort()
        await self._stack.aclose()


async def _connect(
    name: str,
    settings: SshSettings,
    way: _Way,
    witness: "_Witness | None" = None,
) -> asyncssh.SSHClientConnection:
    keys, complaints = _keys(settings)
    trusted = _trusted(settings)
    witness = witness or _Witness()
    agent = settings.agent if not settings.identities_only or keys.identities else None
    with _translated(name, settings, witness, trusted, complaints):
        async with asyncio.timeout(CONNECT_WITHIN_S):
            door = way if isinstance(way, Door) and settings.proxy_command is None else None
            connection, _ = await asyncssh.create_connection(
                lambda: witness,
                settings.hostname,
                settings.port,
                username=settings.user,
                sock=await door.open(settings.hostname, settings.port) if door else None,
                tunnel=None if isinstance(way, Door) else way,
                proxy_command=_proxy(settings),
                config=None,
                known_hosts=trusted,
                server_host_key_algs=_kinds(trusted),
                encryption_algs=_CIPHERS_FIRST,
                host_key_alias=settings.host_key_alias,
                client_keys=keys.pairs if keys.pairs or agent else None,
                agent_path=agent,
                agent_identities=keys.identities if settings.identities_only else None,
                preferred_auth="publickey",
                keepalive_interval=KEEPALIVE_S,
                keepalive_count_max=KEEPALIVES_LOST,
            )
    return connection


def _proxy(settings: SshSettings) -> list[str] | None:
    """ssh gives a ProxyCommand to the user's shell, so that it may be a whole line."""
    command = settings.proxy_command
    return None if command is None else ["/bin/sh", "-c", command]


class _Witness(asyncssh.SSHClient):
    """Sees the key that known_hosts did not accept."""

    refused: asyncssh.SSHKey | None = None

    def validate_host_public_key(
        self, host: str, addr: str, port: int, key: asyncssh.SSHKey
    ) -> bool:
        del host, addr, port
        self.refused = key
        return False


# --- keys ----------------------------------------------------------------------------------------

_Trusted = tuple[Sequence[Any], ...]
"""Keys of the host, of authorities, revoked ones, and four of X.509: asyncssh's own form."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Keys:
    pairs: list[asyncssh.SSHKeyPair]
    identities: list[bytes]
    """Public halves, for an agent that may offer these only."""


def _keys(settings: SshSettings) -> tuple[_Keys, list[str]]:
    """Keys of the identity files, and why some of them cannot be used."""
    pairs: list[asyncssh.SSHKeyPair] = []
    identities: list[bytes] = []
    complaints: list[str] = []
    certificates = [name for name in settings.certificate_files if Path(name).is_file()]
    for name in settings.identity_files:
        public = Path(name if name.endswith(".pub") else f"{name}.pub")
        with contextlib.suppress(OSError, asyncssh.KeyImportError):
            identities.append(asyncssh.read_public_key(public).public_data)
        if not Path(name).is_file() or name.endswith(".pub"):
            continue
        try:
            pairs += asyncssh.load_keypairs(name, certlist=certificates)
        except asyncssh.KeyEncryptionError:
            complaints.append(f"{name} has a passphrase")
        except (OSError, ValueError) as exc:
            locked = "passphrase" in str(exc).lower()
            complaints.append(f"{name} has a passphrase" if locked else f"{name}: {exc}")
    identities += [pair.public_data for pair in pairs]
    return _Keys(pairs=pairs, identities=identities), complaints


def _trusted(settings: SshSettings) -> _Trusted:
    """What known_hosts holds for this host, by its name and never by its address alone."""
    known = asyncssh.SSHKnownHosts()
    for name in settings.known_hosts:
        try:
            lines = Path(name).read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            continue  # ssh too takes a missing file for an empty one
        for line in lines:
            with contextlib.suppress(ValueError):  # as ssh does, past lines of no sense
                known.load(line)
    port = settings.port if settings.port != asyncssh.DEFAULT_PORT else None
    return known.match(settings.host_key_alias or settings.hostname, "", port)


def _kinds(trusted: _Trusted) -> list[str] | tuple[()]:
    """Kinds of host keys to ask for: known ones first, and the others as well.

    Left to itself asyncssh asks for known ones alone, and a host that was set up anew with
    another kind just hangs up.
    """
    keys, authorities = trusted[:2]
    if not keys and not authorities:
        return ()
    certificates = asyncssh.public_key.get_default_certificate_algs() if authorities else []
    known = [kind for key in keys for kind in key.sig_algorithms]
    usual = asyncssh.public_key.get_default_public_key_algs()
    return list(dict.fromkeys(kind.decode() for kind in [*certificates, *known, *usual]))


def _shown(settings: SshSettings, key: asyncssh.SSHKey) -> HostKey:
    name = settings.host_key_alias or settings.hostname
    where = name if settings.port == asyncssh.DEFAULT_PORT else f"[{name}]:{settings.port}"
    kind = key.get_algorithm()
    return HostKey(
        address=settings.address,
        key_type=kind,
        fingerprint=key.get_fingerprint(),
        known_hosts_line=f"{where} {kind} {base64.b64encode(key.public_data).decode()}",
        known_hosts_file=settings.known_hosts[0],
        known_as=where,
        known=tuple(old.get_fingerprint() for old in _trusted(settings)[0]),
    )


# --- errors --------------------------------------------------------------------------------------


@contextmanager
def _translated(
    name: str,
    settings: SshSettings,
    witness: _Witness | None = None,
    trusted: _Trusted | None = None,
    complaints: list[str] | None = None,
) -> Iterator[None]:
    where = f"{name} ({settings.address})" if settings.hostname != name else settings.address
    try:
        yield
    except asyncssh.HostKeyNotVerifiable as exc:
        raise _host_key_refused(name, where, settings, witness, trusted, str(exc)) from exc
    except asyncssh.PermissionDenied as exc:
        why = "".join(f" ({complaint})" for complaint in complaints or [])
        raise AuthRefused(
            f"{where} refuses every key of ours for user {settings.user}{why}.",
            target=name,
            remedy=f"Try `ssh {settings.user}@{settings.hostname} -p {settings.port}`; "
            "set identity_file, load the key with ssh-add, or have it put into authorized_keys.",
        ) from exc
    except asyncssh.ChannelOpenError:
        raise
    except TimeoutError as exc:
        raise _unreachable(name, where, "no answer in time") from exc
    except (OSError, asyncssh.Error) as exc:
        raise _unreachable(name, where, str(exc) or type(exc).__name__) from exc


def _unreachable(name: str, where: str, why: str) -> Unreachable:
    return Unreachable(
        f"{where} cannot be reached: {why}.",
        target=name,
        remedy="Is the host up, and the network (VPN) between?",
    )


def _host_key_refused(
    name: str,
    where: str,
    settings: SshSettings,
    witness: _Witness | None,
    trusted: _Trusted | None,
    why: str,
) -> HostKeyRefused:
    shown = witness.refused if witness is not None else None
    key = f" {shown.get_algorithm()} {shown.get_fingerprint()}" if shown else ""
    files = ", ".join(settings.known_hosts[:2])
    if trusted and trusted[0]:
        return HostKeyRefused(
            f"The host key of {where} has CHANGED{key}: it is not the one in {files}. "
            "The host was set up anew, or somebody is in between.",
            target=name,
            remedy="Compare the fingerprint with the host's own, then "
            f"`orch trust --replace {name}`.",
        )
    if shown:
        return HostKeyRefused(
            f"The host key of {where} is unknown:{key} is not in {files}.",
            target=name,
            remedy=f"Compare the fingerprint with the host's own, then `orch trust {name}`.",
        )
    return HostKeyRefused(
        f"The host key of {where} is refused: {why}.",
        target=name,
        remedy=f"Look at the lines for it in {files} (@revoked, @cert-authority).",
    )


# --- channels ------------------------------------------------------------------------------------


class _SshChannel:
    def __init__(self, child: "asyncssh.SSHClientProcess[bytes]", target: str) -> None:
        self._child, self._target = child, target
        self._tail = Tail()
        self._draining = asyncio.create_task(self._drain_stderr())

    async def write(self, chunk: bytes) -> None:
        try:
            # asyncssh copies all that it has not sent yet for every packet that it sends.
            for at in range(0, len(chunk), _WRITE_BYTES):
                self._child.stdin.write(chunk[at : at + _WRITE_BYTES])
                await self._child.stdin.drain()
        except (OSError, asyncssh.Error) as exc:
            raise Unreachable(
                f"{self._target}: a command no longer reads its input.", target=self._target
            ) from exc

    async def close_stdin(self) -> None:
        with contextlib.suppress(OSError, asyncssh.Error):
            self._child.stdin.write_eof()

    async def read(self, size: int = 65536) -> bytes:
        try:
            return await self._child.stdout.read(size)
        except asyncssh.Error as exc:
            raise Unreachable(
                f"{self._target}: the connection was lost: {exc}.",
                target=self._target,
                remedy="It is opened anew by itself.",
            ) from exc

    def stderr_tail(self) -> str:
        return self._tail.text()

    async def wait(self) -> int | None:
        await self._child.wait_closed()
        await asyncio.gather(self._draining, return_exceptions=True)
        status = self._child.exit_status
        return status if status is not None and status >= 0 else None

    async def close(self) -> None:
        if not self._child.is_closing():
            with contextlib.suppress(OSError, asyncssh.Error):
                self._child.terminate()
        self._child.close()
        try:
            async with asyncio.timeout(_CLOSE_WITHIN_S):
                await self._child.wait_closed()
        except TimeoutError:
            pass  # the link is dead; keepalive ends the connection
        finally:
            self._draining.cancel()

    async def _drain_stderr(self) -> None:
        with contextlib.suppress(OSError, asyncssh.Error):
            while chunk := await self._child.stderr.read(4096):
                self._tail.add(chunk)
