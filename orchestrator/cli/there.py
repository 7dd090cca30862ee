"""exec: a command on a target by the user's own ssh, its streams and its exit code passed on.

Owns what is shown of them: what a login shell prints before the command is held back, and shown
only where the command never ran, since then it says why.
"""

import argparse
import os
import selectors
import shlex
import signal
import subprocess
import sys
from typing import NoReturn

from orchestrator.cli import output
from orchestrator.cli.enter import become
from orchestrator.cli.targets import target_of
from orchestrator.core.command import MARK, Command, marked_line, shell_line
from orchestrator.core.errors import Unreachable, UsageError
from orchestrator.core.runtimes import (
    IMPATIENT,
    no_way_in,
    ssh_destination,
    ssh_words,
    with_term,
    wrap,
)

PIECE_BYTES = 65536
MOST_NOISE_BYTES = 1 << 20
MOST_FIRST_BYTES = 2048
"""A runtime that has not the container says so in less, and nothing else is said then."""
SSH_FAILED = 255
"""ssh's own code, where it did not come to run a command; a command may give it as well."""


def run_there(options: argparse.Namespace) -> int:
    """Run `orch exec TARGET -- CMD...`; the command's own exit code, 128 and a signal's number."""
    if not options.rest:
        raise UsageError("exec needs a command.", remedy="orch exec TARGET -- nvidia-smi")
    target = target_of(options, options.target)
    on_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    command = Command(argv=tuple(options.rest))
    if on_terminal:
        command = with_term(command.argv, os.environ.get("TERM", "xterm-256color"))
    there = wrap(target, command, on_terminal=on_terminal)
    host = target.host
    if host.transport == "local":
        _become_here(there)
    terminal = ("-t",) if on_terminal else ()
    words = ("ssh", *terminal, *IMPATIENT, *ssh_words(host), "--", ssh_destination(host))
    line = marked_line(there, on_stderr=not on_terminal)
    relayed = _Relayed(on_terminal=on_terminal)
    status = relayed.run((*words, os.fsdecode(line)))
    if status == SSH_FAILED and not relayed.begun:
        raise Unreachable(
            f"{target.name}: ssh did not get to {ssh_destination(host)}; its words are above.",
            target=target.name,
            remedy=f"`{shlex.join(('ssh', '-v', *ssh_words(host), ssh_destination(host)))}` shows "
            "each step of the way.",
        )
    if status and (shut := no_way_in(target, relayed.said)):
        output.note(" ".join(shut))
    return status


def _become_here(there: Command) -> NoReturn:
    become(("/bin/sh", "-c", os.fsdecode(shell_line(there))))


class _Relayed:
    """ssh run to its end; on a terminal its stderr is its own, else the command's and marked."""

    def __init__(self, *, on_terminal: bool) -> None:
        self._stderr = None if on_terminal else subprocess.PIPE
        self._streams: list[_Cleaned] = []

    @property
    def begun(self) -> bool:
        """Whether the host's shell got as far as the command."""
        return any(stream.begun for stream in self._streams)

    @property
    def said(self) -> str:
        """All that was printed, where that is a few lines; a runtime that fails says no more."""
        return "".join(stream.first.decode("utf-8", "replace") for stream in self._streams)

    def run(self, argv: tuple[str, ...]) -> int:
        """Run it; its exit code, 128 and a signal's number."""
        try:
            child = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=self._stderr)
        except OSError as error:
            raise UsageError(f"{argv[0]}: {error.strerror}.", remedy="Is it installed?") from error
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the command
        try:
            self._pass_on(child)
            status = child.wait()
        finally:
            signal.signal(signal.SIGINT, before)
            if child.poll() is None:
                child.terminate()
                child.wait()
        return status if status >= 0 else 128 - status

    def _pass_on(self, child: "subprocess.Popen[bytes]") -> None:
        with selectors.DefaultSelector() as selector:
            for stream, to in ((child.stdout, 1), (child.stderr, 2)):
                if stream is not None:
                    self._streams.append(_Cleaned(to))
                    selector.register(stream, selectors.EVENT_READ, self._streams[-1])
            while selector.get_map():
                for key, _ in selector.select():
                    chunk = os.read(key.fd, PIECE_BYTES)
                    if chunk:
                        key.data.take(chunk)
                    else:
                        selector.unregister(key.fileobj)
                        key.data.end()


class _Cleaned:
    """One stream on its way to ours, without what came before the mark."""

    def __init__(self, to: int) -> None:
        self._to = to
        self._held: bytes | None = b""
        self.first = b""
        """What the command printed, while that is little; nothing once it is more."""
        self._many = False

    @property
    def begun(self) -> bool:
        """Whether the mark has come."""
        return self._held is None

    def take(self, chunk: bytes) -> None:
        """Pass on what follows the mark; hold back what comes before it."""
        if self._held is None:
            self._pass(chunk)
            return
        self._held += chunk
        # A terminal makes a return and a newline of the newline.
        for mark in (MARK, MARK.replace(b"\n", b"\r\n")):
            _, found, rest = self._held.partition(mark)
            if found:
                self._held = None
                self._pass(rest)
                return
        if len(self._held) > MOST_NOISE_BYTES:
            self._held = self._held[-MOST_NOISE_BYTES:]

    def _pass(self, chunk: bytes) -> None:
        self._many = self._many or len(self.first) + len(chunk) > MOST_FIRST_BYTES
        self.first = b"" if self._many else self.first + chunk
        _write(self._to, chunk)

    def end(self) -> None:
        """The stream ended; what was held back tells why the command never ran."""
        if self._held:
            _write(2, self._held)


def _write(to: int, chunk: bytes) -> None:
    while chunk:
        chunk = chunk[os.write(to, chunk) :]
