"""The TCP way to a host, tried so that a host that comes back is met within about half a second.

Owns the pace of attempts, and whether the host was there at the last one. The kernel alone waits
twice as long after each packet that was lost, up to a minute behind a cable that was cut. One door
serves all connections to its host, so that a dead host gets two packets a second. Knows no SSH.
"""

import asyncio
import socket
import struct
from dataclasses import dataclass

KNOCK_EVERY_S = 0.5
_MOST_AT_ONCE = 10
"""An answer may take so many intervals."""
_KEPT_S = 5.0

_TCP_INFO_BYTES = 56
_RETRANSMITS, _LAST_DATA_RECV = 2, 52

Address = tuple[str, int]


class Door:
    """The way to one host. Construct it inside the running loop."""

    def __init__(self) -> None:
        self._absent: Address | None = None
        """Where nobody was met at the last attempt."""
        self._met: tuple[Address, socket.socket, float] | None = None
        """What a knock has opened and nobody has used yet, and when."""
        self._knocking: asyncio.Task[None] | None = None
        self._num_waiting = 0

    async def open(self, hostname: str, port: int) -> socket.socket:
        """A connected socket; OSError where the host refuses, else it is tried until cancelled."""
        address = (hostname, port)
        if (met := self._take_met(address)) is not None:
            self._absent = None
            return met
        self._absent = address
        opened = await _persist(address, refusals_end=True)
        self._absent = None
        return opened

    async def answers_again(self) -> None:
        """Until a host that was not there at the last attempt is; for ever where it was there."""
        if self._absent is None:
            await asyncio.Event().wait()
        else:
            await self.answers(*self._absent)

    async def answers(self, hostname: str, port: int) -> None:
        """Until the host can be connected to; what is connected serves the next `open`."""
        if self._knocking is None or self._knocking.done():
            self._knocking = asyncio.create_task(
                self._knock((hostname, port)), name=f"knock {hostname}"
            )
        knocking = self._knocking
        self._num_waiting += 1
        try:
            await asyncio.shield(knocking)
        finally:
            self._num_waiting -= 1
            if self._num_waiting == 0:
                self._knocking = None  # nobody may join one that is being cancelled
                knocking.cancel()

    def close(self) -> None:
        """Let go of what was opened for nobody."""
        self._drop_met()

    async def _knock(self, address: Address) -> None:
        met = await _persist(address, refusals_end=False)
        self._drop_met()
        self._met = (address, met, asyncio.get_running_loop().time())

    def _take_met(self, address: Address) -> socket.socket | None:
        if self._met is None:
            return None
        whose, met, at = self._met
        if whose == address and asyncio.get_running_loop().time() - at < _KEPT_S and _is_open(met):
            self._met = None
            return met
        self._drop_met()
        return None

    def _drop_met(self) -> None:
        if self._met is not None:
            self._met[1].close()
            self._met = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """What the kernel knows of a connection (tcp_info of linux/tcp.h)."""

    retransmits: int
    """In a row, of what the far kernel has not acknowledged."""
    silent_s: float
    """Since the last bytes came."""

    @classmethod
    def of(cls, connected: socket.socket) -> "Wire | None":
        """None where it is not told: no TCP, closed, or another system than Linux."""
        try:
            raw = connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
        except (OSError, AttributeError):
            return None
        if len(raw) < _TCP_INFO_BYTES:
            return None
        (silent_ms,) = struct.unpack_from("=I", raw, _LAST_DATA_RECV)
        return cls(retransmits=raw[_RETRANSMITS], silent_s=silent_ms / 1000)


async def _persist(address: Address, *, refusals_end: bool) -> socket.socket:
    """Connect; there is always a new attempt beside those that have no answer yet."""
    loop, number = asyncio.get_running_loop(), 0
    dials: list[asyncio.Task[socket.socket]] = []
    try:
        while True:
            begun, number = loop.time(), number + 1
            dials.append(asyncio.create_task(_dial(address, number), name=f"dial {address[0]}"))
            done, _ = await asyncio.wait(
                dials, timeout=KNOCK_EVERY_S, return_when=asyncio.FIRST_COMPLETED
            )
            for dial in done:
                if refusals_end or dial.exception() is None:
                    dials.remove(dial)
                    return dial.result()
            await asyncio.sleep(begun + KNOCK_EVERY_S - loop.time())
            over = [dial for dial in dials if dial.done()] or dials[: 1 - _MOST_AT_ONCE]
            await _let_go(over)
            dials = [dial for dial in dials if dial not in over]
    finally:
        await _let_go(dials)


async def _dial(address: Address, number: int) -> socket.socket:
    """One attempt; each begins with another one of the host's addresses."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(*address, type=socket.SOCK_STREAM)
    first = (number - 1) % len(found)
    problem: OSError | None = None
    for family, kind, protocol, _, where in (*found[first:], *found[:first]):
        dialled = socket.socket(family, kind, protocol)
        try:
            dialled.setblocking(False)
            await loop.sock_connect(dialled, where)
        except OSError as exc:
            dialled.close()
            problem = exc
        except BaseException:
            dialled.close()
            raise
        else:
            return dialled
    raise problem or OSError(f"{address[0]} has no address")


async def _let_go(dials: list[asyncio.Task[socket.socket]]) -> None:
    for dial in dials:
        dial.cancel()
    for outcome in await asyncio.gather(*dials, return_exceptions=True):
        if isinstance(outcome, socket.socket):
            outcome.close()


def _is_open(met: socket.socket) -> bool:
    """sshd speaks first, and may have hung up meanwhile."""
    try:
        return met.recv(1, socket.MSG_PEEK) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False
