"""What a transport is: the way a command and its bytes reach a target.

Owns the protocol only. `ssh/`, `local.py` and `container.py` are its three kinds.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from orchestrator.core.command import Command
from orchestrator.core.errors import TargetError


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """A command that ended; `exit_status` is None where a signal or the link ended it."""

    exit_status: int | None
    stdout: bytes
    stderr: bytes


class Channel(Protocol):
    """One running command with its three streams."""

    async def write(self, chunk: bytes) -> None:
        """Send to its stdin, waiting while the far side does not read."""
        ...

    async def close_stdin(self) -> None:
        """End of its stdin."""
        ...

    async def read(self, size: int = 65536) -> bytes:
        """Next bytes of its stdout; empty at the end."""
        ...

    def stderr_tail(self) -> str:
        """The end of what it wrote to stderr, 4 KiB or less, control characters neutralised."""
        ...

    async def wait(self) -> int | None:
        """Its exit status; None where a signal or the link ended it."""
        ...

    async def close(self) -> None:
        """End it and let go of the channel; safe to call twice."""
        ...


class Way(Protocol):
    """What carries a host's lasting channels: it may be cut and joined again beneath them."""

    @property
    def problem(self) -> TargetError | None:
        """Why nothing comes through; None while it does, as far as is known."""
        ...

    @property
    def silent_s(self) -> float:
        """Seconds since anything came from the host."""
        ...

    def poke(self) -> bool:
        """Join at once where the next attempt waits for its time; whether one is made then."""
        ...

    def on_change(self, reader: Callable[[], None]) -> Callable[[], None]:
        """Call `reader` after each attempt to join, until the result is called."""
        ...


class Transport(Protocol):
    """A way to one target. Every error is a TargetError with the target's name."""

    @property
    def way(self) -> Way | None:
        """What carries lasting channels; None where they last no longer than others."""
        ...

    async def open(self, command: Command, *, bulk: bool = False, lasting: bool = False) -> Channel:
        """Start a command.

        `bulk` asks for a connection that large transfers have to themselves, `lasting` for a
        channel that outlives its connection where that can be had.
        """
        ...

    async def run(
        self, command: Command, *, stdin: bytes = b"", timeout_s: float = 30.0
    ) -> Completed:
        """Run a command to its end; Unreachable after `timeout_s`."""
        ...

    async def answers_again(self) -> None:
        """Return once a host that could not be reached can be; wait for ever where it could."""
        ...

    async def close(self) -> None:
        """Let go of everything that is held for this target."""
        ...
