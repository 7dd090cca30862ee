"""The exception tree: every error says what, where and the remedy, and carries its exit code.

OrchError                     1   own failure
|-- UsageError                2   wrong words on the command line
|   `-- InventoryError        2   every problem of an inventory, at once
|-- NoSuchRun               102   a RUN or INCIDENT that names nothing
|-- TargetError               4   a host could not be seen
|   |-- Unreachable           4   no connection, or it died
|   |-- HostKeyRefused        4   unknown or changed host key
|   |-- AuthRefused           4   the host knows us not
|   |-- NotDriven             1   another daemon drives the host
|   `-- RemoteCommandFailed   1   a command ran and failed there
|-- DeployError               1   the release on the target is the old one, whole
|-- PreflightRefused          1   nothing was launched; the checks say why
|-- LaunchError               1   the session or the relay did not start
|-- StoreError                1   the state folder cannot be used
|-- DaemonError               1   no daemon, or it did not answer
|   `-- NoDaemon              1   nobody listens on the socket
`-- ApiError                  *   what the daemon refused, with its own exit code

Its nouns are named tuples: every command loads this file, and `dataclasses` costs it 7 ms.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple


class OrchError(Exception):
    """Root of what orch raises on purpose; `remedy` is a sentence a person can act on."""

    exit_code = 1

    def __init__(self, message: str, *, remedy: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        if not self.remedy:
            return self.message
        # What a command printed stands in lines; the remedy is none of them.
        gap = "\n" if "\n" in self.message else " "
        return f"{self.message}{gap}{self.remedy}"


class UsageError(OrchError):
    """The words of a command are wrong, or name something that is not in the inventory."""

    exit_code = 2


class Problem(NamedTuple):
    """One fault of an inventory; `line` is 1-based."""

    file: str
    line: int
    key: str
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.key}: {self.text}"


class InventoryError(UsageError):
    """All faults of one inventory, in the order of their lines."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = problems


class NoSuchRun(OrchError):
    """A RUN or INCIDENT that names nothing in the store."""

    exit_code = 102


class TargetError(OrchError):
    """Something between us and a target; `target` is its name in the inventory."""

    exit_code = 4

    def __init__(self, message: str, *, target: str, remedy: str | None = None) -> None:
        super().__init__(message, remedy=remedy)
        self.target = target


class Unreachable(TargetError):
    """No connection, or it died; says nothing about the run there."""


class HostKeyRefused(TargetError):
    """The host's key is unknown or has changed; nothing was sent."""


class AuthRefused(TargetError):
    """The host refused every key and agent identity that was offered."""


class NotDriven(TargetError):
    """Another daemon of the fleet drives the host; nothing was sent to it."""

    exit_code = 1


class RemoteCommandFailed(TargetError):
    """A command ran on the target and ended non-zero; `tail` is the end of its output."""

    exit_code = 1

    def __init__(
        self,
        message: str,
        *,
        target: str,
        command: str,
        exit_status: int | None,
        tail: str = "",
        remedy: str | None = None,
    ) -> None:
        super().__init__(message, target=target, remedy=remedy)
        self.command = command
        self.exit_status = exit_status
        self.tail = tail


class DeployError(OrchError):
    """A deploy ended; `current` on the target still is the old release, whole."""


class Check(NamedTuple):
    """One preflight or doctor check: `critical` ones refuse, the others warn."""

    name: str
    ok: bool
    text: str
    remedy: str | None = None
    critical: bool = True


class PreflightRefused(OrchError):
    """Nothing was launched; `checks` holds all of them, failed and passed."""

    def __init__(self, message: str, *, checks: tuple[Check, ...], remedy: str | None = None):
        super().__init__(message, remedy=remedy)
        self.checks = checks


class LaunchError(OrchError):
    """The tmux session or the relay in it did not start."""


class StoreError(OrchError):
    """The state folder or the database in it cannot be used."""


class DaemonError(OrchError):
    """No daemon, or it did not answer as one."""


class NoDaemon(DaemonError):
    """Nobody listens on the socket."""


class ApiError(OrchError):
    """An error that the daemon raised, as its client got it; the exit code is the daemon's."""

    def __init__(
        self,
        message: str,
        *,
        remedy: str | None = None,
        exit_code: int = 1,
        checks: tuple[Mapping[str, Any], ...] = (),
        problems: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message, remedy=remedy)
        self.exit_code = exit_code
        self.checks = checks
        self.problems = problems
