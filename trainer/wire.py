"""A drafter's ring filled over TCP, by targets of other hosts.

The drafter listens; each target connects once, shows the token of this run and sends its items.
A thread for each connection lays them into the ring's memory, and reads no further while its
item's slot is not free: so TCP holds the target back. It owns the connections and the frames.
"""

import ctypes
import hmac
import os
import secrets
import select
import socket
import struct
import threading
import time
from collections.abc import Callable

import torch
from torch import Tensor

from trainer.crew import PeerLostError
from trainer.ring import Ring

FRAME = struct.Struct("<qqqq")
"""Item, bytes, and the target's busy and idle nanoseconds so far."""
HELLO = struct.Struct("<16sq")
HELLO_S = 30
POLL_S = 0.2
Address = tuple[str, int, bytes]
"""Host, port and token."""


class Receiver:
    """The drafter's side: it fills `ring` with what the targets send."""

    def __init__(self, ring: Ring, slot_bytes: int) -> None:
        self._ring, self._slot_bytes = ring, slot_bytes
        self._token = secrets.token_bytes(16)
        self._lost = ""
        self._listener = socket.create_server(("", 0))
        threading.Thread(target=self._accept, name="features", daemon=True).start()

    @property
    def address(self) -> Address:
        """Where targets of other hosts connect to."""
        return _own_address(), self._listener.getsockname()[1], self._token

    def check(self) -> None:
        """Raise PeerLostError if a target went before its time."""
        if self._lost:
            raise PeerLostError(f"a target of another host is gone ({self._lost})")

    def _accept(self) -> None:
        while not self._ring.closed:
            if select.select([self._listener], [], [], POLL_S)[0]:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._receive, args=(connection,), daemon=True).start()
        self._listener.close()

    def _receive(self, connection: socket.socket) -> None:
        with connection:
            try:
                connection.settimeout(HELLO_S)
                token, target = HELLO.unpack(_exactly(connection, HELLO.size))
                if not hmac.compare_digest(token, self._token):
                    return
            except OSError:
                return  # some stranger
            try:
                connection.settimeout(None)
                while self._item(connection, target):
                    pass
            except OSError as error:
                self._lost = "" if self._ring.closed else str(error)

    def _item(self, connection: socket.socket, target: int) -> bool:
        frame = _exactly(connection, FRAME.size)
        number, size, busy, idle = FRAME.unpack(frame)
        if not 0 < size <= self._slot_bytes or not self._ring.await_free(number, lambda _: None):
            return False
        _fill(connection, _bytes_of(self._ring.slot(number)[:size]))
        self._ring.note(target, busy / 1e9, idle / 1e9)
        self._ring.mark_ready(number)
        return True


class Wire:
    """The target's side: what a Server does with a ring, it does with this."""

    def __init__(self, address: Address, target: int) -> None:
        host, port, token = address
        self._socket = socket.create_connection((host, port), timeout=HELLO_S)
        self._socket.sendall(HELLO.pack(token, target))
        self._socket.setblocking(False)
        self._noted = (0, 0)
        self.waited_s = 0.0

    def put(self, number: int, x: Tensor, check: Callable[[float], None]) -> bool:
        """Send `x` as item `number`; False if the drafter wants no more.

        `check` is called while waiting with the seconds so far, and may raise.
        """
        flat = x.contiguous().flatten().view(torch.uint8).cpu()
        try:
            self._send(memoryview(FRAME.pack(number, len(flat), *self._noted)), check)
            self._send(_bytes_of(flat), check)
        except ConnectionError:
            return False
        return True

    def note(self, target: int, busy_s: float, idle_s: float) -> None:
        """This target's seconds so far, sent with its next item."""
        del target
        self._noted = (int(busy_s * 1e9), int(idle_s * 1e9))

    def _send(self, view: memoryview, check: Callable[[float], None]) -> None:
        began = time.monotonic()
        while len(view):
            if select.select([], [self._socket], [], POLL_S)[1]:
                view = view[self._socket.send(view) :]
            else:
                check(time.monotonic() - began)
        self.waited_s += time.monotonic() - began


def _exactly(connection: socket.socket, size: int) -> bytes:
    held = bytearray(size)
    _fill(connection, memoryview(held))
    return bytes(held)


def _fill(connection: socket.socket, view: memoryview) -> None:
    while len(view):
        count = connection.recv_into(view)
        if not count:
            raise ConnectionResetError("the connection ended")
        view = view[count:]


def _bytes_of(flat: Tensor) -> memoryview:
    # Without numpy torch shows nobody its memory; the caller keeps the tensor.
    return memoryview((ctypes.c_ubyte * len(flat)).from_address(flat.data_ptr())).cast("B")


def _own_address() -> str:
    """This host's address on the way to where the processes of the run meet."""
    leader = os.environ.get("MASTER_ADDR", "127.0.0.1")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((leader, 9))  # sends nothing
        address: str = probe.getsockname()[0]
    return address
