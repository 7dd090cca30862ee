"""exec: a command on a target by the user's own ssh, its streams and its exit code passed on.

Owns what is shown of them: what a login shell prints before the command is held back, and shown
only where the command never ran, since then it says why.
"""

import argparse
import os
import selectors
import signal
import subprocess
import sys
from typing import NoReturn

from orchestrator.cli.enter import become
from orchestrator.cli.targets import target_of
from orchestrator.core.command import MARK, Command, marked_line, shell_line
from orchestrator.core.errors import UsageError
from orchestrator.core.runtimes import ssh_destination, ssh_words, wrap

PIECE_BYTES = 65536
MOST_NOISE_BYTES = 1 << 20


def run_there(options: argparse.Namespace) -> int:
    """Run `orch exec TARGET -- CMD...`; the command's own exit code, 128 and a signal's number."""
    if not options.rest:
        raise UsageError("exec needs a command.", remedy="orch exec TARGET -- nvidia-smi")
    target = target_of(options, options.target)
    on_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    there = wrap(target, Command(argv=tuple(options.rest)), on_terminal=on_terminal)
    host = target.host
    if host.transport == "local":
        _become_here(there)
    terminal = ("-t",) if on_terminal else ()
    words = ("ssh", *terminal, *ssh_words(host), "--", ssh_destination(host))
    line = marked_line(there, on_stderr=not on_terminal)
    return _relayed((*words, os.fsdecode(line)), on_terminal=on_terminal)


def _become_here(there: Command) -> NoReturn:
    become(("/bin/sh", "-c", os.fsdecode(shell_line(there))))


def _relayed(argv: tuple[str, ...], *, on_terminal: bool) -> int:
    """Run ssh; on a terminal its stderr is its own, else the command's and marked as well."""
    try:
        child = subprocess.Popen(
            argv, stdout=subprocess.PIPE, stderr=None if on_terminal else subprocess.PIPE
        )
    except OSError as error:
        raise UsageError(f"{argv[0]}: {error.strerror}.", remedy="Is it installed?") from error
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the command
    try:
        _pass_on(child)
        status = child.wait()
    finally:
        signal.signal(signal.SIGINT, before)
        if child.poll() is None:
            child.terminate()
            child.wait()
    return status if status >= 0 else 128 - status


def _pass_on(child: "subprocess.Popen[bytes]") -> None:
    with selectors.DefaultSelector() as selector:
        for stream, to in ((child.stdout, 1), (child.stderr, 2)):
            if stream is not None:
                selector.register(stream, selectors.EVENT_READ, _Cleaned(to))
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

    def take(self, chunk: bytes) -> None:
        """Pass on what follows the mark; hold back what comes before it."""
        if self._held is None:
            _write(self._to, chunk)
            return
        self._held += chunk
        # A terminal makes a return and a newline of the newline.
        for mark in (MARK, MARK.replace(b"\n", b"\r\n")):
            _, found, rest = self._held.partition(mark)
            if found:
                self._held = None
                _write(self._to, rest)
                return
        if len(self._held) > MOST_NOISE_BYTES:
            self._held = self._held[-MOST_NOISE_BYTES:]

    def end(self) -> None:
        """The stream ended; what was held back tells why the command never ran."""
        if self._held:
            _write(2, self._held)


def _write(to: int, chunk: bytes) -> None:
    while chunk:
        chunk = chunk[os.write(to, chunk) :]
