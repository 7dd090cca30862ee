"""The commands at a trunk's far end: their three pipes, and what is on its way through them.

Owns the step from a line to a PID. Its text travels to the host by itself: stdlib, Python 3.10.
"""

import os
import resource
import selectors
import signal
import time
from collections.abc import Container, Iterator

from . import trunk_wire as wire
from .trunk_wire import Incoming, Outgoing

_IDLE_S = 10.0
_CANNOT_RUN = 126
"""The status that a shell has for it."""
_MOST_FILES = 65536
"""Three descriptors a command: a hundred containers are near the usual soft limit of 1024."""
_DRAIN_S = 0.5
"""A program that a command left behind may hold its pipes open for ever."""

_FILES = resource.getrlimit(resource.RLIMIT_NOFILE)
"""Soft and hard limit as they were given, which is what commands get."""


class Command:
    """One command of the holder and its three pipes."""

    def __init__(self, line: bytes) -> None:
        self.pid, self.stdin, self.stdout, self.stderr = 0, -1, -1, -1
        self.out, self.err, self.typed = Outgoing(), Outgoing(), Incoming()
        self.to_type = bytearray()
        self.input_ends_at: int | None = None
        self.status: int | None = None
        self.reaped_at: float | None = None
        self.exit_told = False
        self.tell_typed: int | None = None
        """Up to where its input was taken, where that is to be told."""
        try:
            self._begin(line)
        except OSError:
            # No descriptors or no processes are left: this one cannot run, and the others do.
            self.status, self.reaped_at = _CANNOT_RUN, time.monotonic()

    def _begin(self, line: bytes) -> None:
        fds: list[int] = []
        try:
            for _ in range(3):
                fds += os.pipe()
            self.pid = os.fork()
        except OSError:
            for fd in fds:
                os.close(fd)
            raise
        stdin, self.stdin, self.stdout, stdout, self.stderr, stderr = fds
        if self.pid == 0:
            _become(line, stdin, stdout, stderr)
        for fd in (stdin, stdout, stderr):
            os.close(fd)
        for fd in (self.stdin, self.stdout, self.stderr):
            os.set_blocking(fd, False)

    @property
    def over(self) -> bool:
        """Whether it has ended and nothing more will come out of it."""
        return self.reaped_at is not None and self.stdout < 0 and self.stderr < 0


def _become(line: bytes, stdin: int, stdout: int, stderr: int) -> None:
    try:
        os.setsid()
        for number, fd in enumerate((stdin, stdout, stderr)):
            os.dup2(fd, number)
        for caught in (signal.SIGPIPE, signal.SIGHUP, signal.SIGCHLD):
            signal.signal(caught, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_NOFILE, _FILES)
        os.execv("/bin/sh", [b"sh", b"-c", line])  # noqa: S606  the daemon quoted it
    finally:
        os._exit(127)


class Commands:
    """All commands by their channel; iterate for (channel, command)."""

    def __init__(self, selector: selectors.BaseSelector) -> None:
        self._selector = selector
        soft, hard = _FILES
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, _MOST_FILES)), hard))
        self._commands: dict[int, Command] = {}
        self._woken, wakes = os.pipe()
        for fd in (self._woken, wakes):
            os.set_blocking(fd, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
        selector.register(self._woken, selectors.EVENT_READ, self._reap)

    def __iter__(self) -> Iterator[tuple[int, Command]]:
        return iter(list(self._commands.items()))

    @property
    def all_ended(self) -> bool:
        """Whether there were commands and none lives."""
        alive = any(one.reaped_at is None for one in self._commands.values())
        return bool(self._commands) and not alive

    @property
    def wait_s(self) -> float:
        """When to `look` at the latest."""
        draining = any(one.reaped_at is not None and not one.over for _, one in self)
        return _DRAIN_S / 2 if draining else _IDLE_S

    def take(self, kind: bytes, number: int, offset: int, content: bytes) -> None:
        """What the daemon says of one of them; BadTrunk where it makes no sense."""
        one = self._commands.get(number)
        if one is None:
            if kind == wire.OPEN:
                self._commands[number] = one = Command(content)
                self.listen_to(one)
        elif kind == wire.IN:
            one.to_type += one.typed.fresh(offset, content)
            self._type(one)
        elif kind == wire.IN_END:
            one.input_ends_at = offset
            self._type(one)
        elif kind == wire.CLOSE:
            self._close(number)
        elif kind in (wire.ACK_OUT, wire.ACK_ERR):
            (one.out if kind == wire.ACK_OUT else one.err).take(offset)
            self.listen_to(one)

    def close_all_but(self, wanted: Container[int]) -> None:
        """End those that nobody wants any more."""
        for number, _ in self:
            if number not in wanted:
                self._close(number)

    def listen_to(self, one: Command) -> None:
        """Read what it prints, as far as there is room for it."""
        for fd, stream in ((one.stdout, one.out), (one.stderr, one.err)):
            if fd < 0:
                continue
            registered = fd in self._selector.get_map()
            if stream.room > 0 and not registered:
                self._selector.register(
                    fd,
                    selectors.EVENT_READ,
                    lambda fd=fd, stream=stream: self._hear(one, fd, stream),
                )
            elif registered and stream.room <= 0:
                self._selector.unregister(fd)

    def _hear(self, one: Command, fd: int, stream: Outgoing) -> bool:
        """Take what it printed, or its end; whether there was either."""
        try:
            chunk = os.read(fd, min(wire.PART_BYTES, stream.room))
        except BlockingIOError:
            return False
        except OSError:
            chunk = b""
        if chunk:
            stream.add(chunk)
            self.listen_to(one)
        else:
            self._end_output(one, fd)
        return True

    def _end_output(self, one: Command, fd: int) -> None:
        forget(self._selector, fd)
        os.close(fd)
        if fd == one.stdout:
            one.stdout = -1
        else:
            one.stderr = -1

    def _type(self, one: Command) -> None:
        try:
            while one.to_type and one.stdin >= 0:
                del one.to_type[: os.write(one.stdin, one.to_type)]
        except BlockingIOError:
            pass
        except OSError:
            self._end_input(one)
        if one.stdin < 0:
            # It reads no more: what is typed for it is taken and thrown away, as by a shell.
            one.to_type.clear()
        taken = one.typed.end - len(one.to_type)
        if one.typed.to_tell(taken):
            one.tell_typed = taken
        if one.stdin < 0:
            return
        registered = one.stdin in self._selector.get_map()
        if one.to_type and not registered:
            self._selector.register(one.stdin, selectors.EVENT_WRITE, lambda: self._type(one))
        elif registered and not one.to_type:
            self._selector.unregister(one.stdin)
        if not one.to_type and one.input_ends_at == one.typed.end:
            self._end_input(one)

    def _end_input(self, one: Command) -> None:
        forget(self._selector, one.stdin)
        os.close(one.stdin)
        one.stdin = -1

    def _reap(self) -> None:
        try:
            os.read(self._woken, 4096)
        except BlockingIOError:
            pass
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            for one in self._commands.values():
                if one.pid == pid:
                    one.status = os.waitstatus_to_exitcode(status)
                    one.reaped_at = time.monotonic()

    def look(self) -> None:
        """Let go of pipes that somebody else holds open behind a command that has ended."""
        now = time.monotonic()
        for one in self._commands.values():
            if one.reaped_at is not None and not one.over and now - one.reaped_at > _DRAIN_S:
                for fd, stream in ((one.stdout, one.out), (one.stderr, one.err)):
                    # What it printed before it ended may have waited for room until now.
                    if fd >= 0 and stream.room > 0 and not self._hear(one, fd, stream):
                        self._end_output(one, fd)

    def _close(self, number: int) -> None:
        one = self._commands.pop(number)
        if one.stdin >= 0:
            self._end_input(one)
        for fd in (one.stdout, one.stderr):
            if fd >= 0:
                self._end_output(one, fd)
        if one.reaped_at is None:
            _terminate(one.pid)


def _terminate(pid: int) -> None:
    # So young that it leads no group yet, it is told by itself; or it is reaped by the next round.
    for tell in (os.killpg, os.kill):
        try:
            tell(pid, signal.SIGTERM)
            return
        except ProcessLookupError:
            continue
        except PermissionError:
            return  # by sudo it is root's, and ends at the end of its input


def forget(selector: selectors.BaseSelector, fd: int) -> None:
    """Listen to a descriptor no more, whether or not it was listened to."""
    if fd in selector.get_map():
        selector.unregister(fd)
