"""A trunk's far end: commands that run on although the connection that began them was cut.

Owns the commands of one daemon on one host, what they printed and nobody has yet, and what was
typed for them. Its text travels to the host by itself: stdlib, Python 3.10.

    hold NAME    become a holder (a program of its own session), and join it
    join NAME    give this command's stdin and stdout to the holder, and wait until it lets go

Prints `orch here`, and frames follow; or `orch gone` where there is no holder of that name, and
`orch failed` where none can be.
"""

import array
import os
import selectors
import signal
import socket
import stat
import time
from typing import Any

from . import trunk_wire as wire
from .trunk_command import Commands, forget
from .trunk_wire import BadTrunk, Frames, frame

LINGER_S = 300.0
"""Without a word of the daemon: what it began ends with it."""
ENDED_LINGER_S = 30.0
"""The same where nothing is left but what was not told yet."""
_JOIN_WITHIN_S = 5.0


class Attached:
    """The way to the daemon, while there is one."""

    def __init__(self, connector: socket.socket, stdin: int, stdout: int) -> None:
        self.connector, self.stdin, self.stdout = connector, stdin, stdout
        self.frames, self.out = Frames(), bytearray()
        self.resumed = False

    def close(self) -> None:
        """Let the connector go, and with it sshd's session."""
        os.close(self.stdin)
        os.close(self.stdout)
        self.connector.close()


class Holder:
    """The commands, and the loop that serves them."""

    def __init__(self, listener: socket.socket) -> None:
        self._selector = selectors.DefaultSelector()
        self._listener = listener
        self._commands = Commands(self._selector)
        self._way: Attached | None = None
        self._heard_at = time.monotonic()
        self._bye = False
        self._selector.register(listener, selectors.EVENT_READ, self._accept)

    def hold(self) -> None:
        """Until the daemon says so, or is silent for too long."""
        while not self._bye and time.monotonic() - self._heard_at < self._linger_s:
            for ready, _ in self._selector.select(self._commands.wait_s):
                # One that was unregistered by an earlier one of this round is of the past.
                if self._selector.get_map().get(ready.fd) is ready:
                    ready.data()
            self._commands.look()
            self._send()
        self._commands.close_all_but(())

    @property
    def _linger_s(self) -> float:
        """What a daemon that was killed left is ended by the probes of the next one."""
        return ENDED_LINGER_S if self._commands.all_ended else LINGER_S

    # --- the way ---------------------------------------------------------------------------------

    def _accept(self) -> None:
        connector, _ = self._listener.accept()
        connector.settimeout(_JOIN_WITHIN_S)
        try:
            _, passed, _, _ = connector.recvmsg(1, socket.CMSG_SPACE(8), socket.MSG_CMSG_CLOEXEC)
            fds = array.array("i", passed[0][2])
        except (OSError, IndexError):
            connector.close()
            return
        self._detach()
        for fd in fds:
            os.set_blocking(fd, False)
        self._way = Attached(connector, *fds)
        self._heard_at = time.monotonic()
        self._selector.register(self._way.stdin, selectors.EVENT_READ, self._receive)
        marks = bytearray()
        for number, one in self._commands:
            one.tell_typed = None
            marks += wire.MARK.pack(number, one.typed.mark(), 0)
        self._way.out += frame(wire.RESUME, content=bytes(marks))

    def _detach(self) -> None:
        way, self._way = self._way, None
        if way is not None:
            forget(self._selector, way.stdin)
            forget(self._selector, way.stdout)
            way.close()

    def _receive(self) -> None:
        way = self._way
        if way is None:
            return
        try:
            chunk = os.read(way.stdin, wire.WIRE_BYTES)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        if not chunk:
            self._detach()
            return
        self._heard_at = time.monotonic()
        try:
            for each in way.frames.take(chunk):
                self._take(way, *each)
        except BadTrunk:
            # The daemon sees the end of it, joins again, and says anew what it has.
            self._detach()

    def _take(self, way: Attached, kind: bytes, number: int, offset: int, content: bytes) -> None:
        if kind == wire.PING:
            way.out += frame(wire.PONG, offset=offset)
        elif kind == wire.RESUME:
            self._resume(way, content)
        elif kind == wire.BYE:
            self._bye = True
        else:
            self._commands.take(kind, number, offset, content)

    def _resume(self, way: Attached, content: bytes) -> None:
        wanted = {number: (out, err) for number, out, err in wire.MARK.iter_unpack(content)}
        self._commands.close_all_but(wanted)
        for number, one in self._commands:
            one.out.rewind(wanted[number][0])
            one.err.rewind(wanted[number][1])
            one.exit_told = False
            self._commands.listen_to(one)
        way.resumed = True

    def _send(self) -> None:
        """Fill the wire and write what it takes; each command in turn."""
        way = self._way
        if way is None:
            return
        while way.resumed and len(way.out) < wire.WIRE_BYTES and self._fill(way):
            pass
        while way.out:
            try:
                written = os.write(way.stdout, way.out)
            except BlockingIOError:
                break
            except OSError:
                self._detach()
                return
            del way.out[:written]
        registered = way.stdout in self._selector.get_map()
        if way.out and not registered:
            self._selector.register(way.stdout, selectors.EVENT_WRITE, lambda: None)
        elif registered and not way.out:
            self._selector.unregister(way.stdout)

    def _fill(self, way: Attached) -> bool:
        before = len(way.out)
        for number, one in self._commands:
            if one.tell_typed is not None:
                way.out += frame(wire.ACK_IN, number, one.tell_typed)
                one.tell_typed = None
            for kind, stream in ((wire.ERR, one.err), (wire.OUT, one.out)):
                if stream.waits:
                    way.out += frame(kind, number, *stream.next_part())
            if one.over and not one.exit_told and not (one.out.waits or one.err.waits):
                one.exit_told = True
                way.out += frame(wire.EXIT, number, content=str(one.status).encode())
        return len(way.out) > before


def _path(name: str) -> str:
    """A socket in a folder that only this user can write to."""
    folder = f"/tmp/orch-{os.getuid()}"  # noqa: S108  owner and mode are checked below
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        pass
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise OSError(f"{folder} is not this user's own folder")
    return os.path.join(folder, f"{name}.trunk")


def _begin(path: str) -> None:
    """Fork the holder; the socket is there when this comes back."""
    listener = socket.socket(socket.AF_UNIX)
    mask = os.umask(0o077)
    listener.bind(path)
    os.umask(mask)
    listener.listen(4)
    if os.fork():
        listener.close()
        return
    os.setsid()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    nothing = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(nothing, fd)
    try:
        Holder(listener).hold()
    finally:
        os.unlink(path)
        os._exit(0)


def _meet(path: str) -> socket.socket:
    holder = socket.socket(socket.AF_UNIX)
    try:
        holder.connect(path)
    except ConnectionRefusedError:
        # It was killed, and could not take its socket with it.
        os.unlink(path)
        raise
    return holder


def main(words: "list[str]") -> int:
    """Become the connector of a holder; 1 where there is none."""
    verb, name = words
    try:
        path = _path(name)
        if verb == "hold":
            _begin(path)
        holder = _meet(path)
    except OSError:
        os.write(1, b"\norch gone\n" if verb == "join" else b"\norch failed\n")
        return 1
    os.write(1, b"\norch here\n")
    passed: Any = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1]))]
    holder.sendmsg([b"."], passed)
    holder.recv(1)
    return 0
