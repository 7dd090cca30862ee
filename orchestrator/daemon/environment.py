"""Values of secrets and sink addresses: kept in memory only, looked up by name.

They come from the daemon's own environment, from clients that start it or use it, and from
`$XDG_CONFIG_HOME/orch/env` (env_file.py). What a command or the file said last counts. Where
a name has no value, `NAME_FILE` may name a file that holds it and `NAME_COMMAND` a command that
prints it, in either of the two places. Looking up waits for nothing: commands are run by `learn`.
"""

import asyncio
import asyncio.subprocess
import contextlib
import logging
import os
import signal
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from orchestrator.core.model import Inventory
from orchestrator.daemon.env_file import EnvFile

logger = logging.getLogger(__name__)


def wanted_by(inventory: Inventory) -> dict[str, list[str]]:
    """Names of the variables that an inventory needs values for, sorted, and who wants each."""
    alerts = inventory.alerts
    wants = [(name, f"job {job.name}") for job in inventory.jobs.values() for name in job.secrets]
    for sink in alerts.sinks:
        wants += [(name, f"sink {sink.name}") for name in (sink.url_env, sink.secret_env) if name]
    if alerts.heartbeat_url_env:
        wants.append((alerts.heartbeat_url_env, "heartbeat"))
    found: dict[str, list[str]] = {}
    for name, who in sorted(wants):
        found.setdefault(name, []).append(who)
    return found


def wanted_names(inventory: Inventory) -> list[str]:
    """Names of the variables that an inventory needs values for."""
    return list(wanted_by(inventory))


COMMAND_WITHIN_S = 5.0
"""A command that asks a person something has no value."""

KEPT_S = 600.0
TRIED_AGAIN_AFTER_S = 30.0


class Accepted(NamedTuple):
    """What was taken of a client's values, by name."""

    names: list[str]
    replaced: list[str]
    """Those that had another value before."""


class Environment:
    """Looks names up: of a client's and the file's word the newer one, then our own environment."""

    def __init__(self, own: Mapping[str, str], file: Path, monotonic: Callable[[], float]) -> None:
        self._own = dict(own)
        self._monotonic = monotonic
        self._printed: dict[str, tuple[float, str | None]] = {}
        """By command: until when its output counts, and that."""
        self._asked: dict[str, asyncio.Task[None]] = {}
        self._sent: dict[str, str] = {}
        self._file = file
        self._env_file = EnvFile(file, self.file)
        self._in_file: dict[str, str] = {}
        self._seen: dict[str, set[str]] = {}
        """Every value that a name had: what runs with an earlier one may still print it."""
        self._warned: dict[str, str] = {}

    @property
    def file(self) -> str:
        """The file that is read, as a person writes its name."""
        home = self._own.get("HOME")
        inside = home is not None and self._file.is_relative_to(home)
        return f"~/{self._file.relative_to(home)}" if home and inside else str(self._file)

    def accept(self, values: Mapping[str, str], wanted: list[str]) -> Accepted:
        """Take the values whose names are wanted: a person's command is the newest word."""
        given = {name: value for name, value in values.items() if name in wanted and value}
        before = {name: self.lookup(name) for name in given}
        taken = {name: value for name, value in given.items() if value != before[name]}
        self._sent.update(taken)
        replaced = sorted(name for name in taken if before[name] is not None)
        return Accepted(sorted(given), replaced)

    def file_faults(self) -> tuple[str, ...]:
        """What the file has that is not taken, and why."""
        self._read_file()
        return self._env_file.faults

    def every_value(self, name: str) -> frozenset[str]:
        """What a name has and had for a value since the daemon began."""
        self.lookup(name)
        return frozenset(self._seen.get(name, ()))

    def lookup(self, name: str) -> str | None:
        """The value of a name, or None where it is found nowhere."""
        self._read_file()
        found = self._sent.get(name) or self._said(name)
        if not found and (path := self._said(f"{name}_FILE")):
            found = self._content(path)
        if not found and (command := self._said(f"{name}_COMMAND")):
            found = self._printed.get(command, (0.0, None))[1]
        if found and "\0" in found:
            self._warn("environment.value_refused", "variable", name, "a NUL")
            return None  # no variable of a program can hold it
        if found:
            self._warned.pop(name, None)
            self._seen.setdefault(name, set()).add(found)
        return found or None

    def _said(self, name: str) -> str | None:
        return self._in_file.get(name) or self._own.get(name)

    def _content(self, path: str) -> str | None:
        try:
            content = Path(path).expanduser().read_text(encoding="utf-8").strip()
        except (OSError, ValueError, RuntimeError) as error:
            unknown = "no such user" if isinstance(error, RuntimeError) else "not UTF-8"
            why = getattr(error, "strerror", None) or unknown
            self._warn("environment.value_file_unread", "path", path, why)
            return None
        self._warned.pop(path, None)
        return content

    def _warn(self, event: str, what: str, of: str, why: str) -> None:
        """Say it once: values are looked up to cover each line of the log, this one as well."""
        if self._warned.get(of) != why:
            self._warned[of] = why
            logger.warning(event, extra={what: of, "why": why})

    async def learn(self, names: Iterable[str]) -> None:
        """Run the commands that these names need, side by side, unless their output counts still.

        What was printed last counts on while a command is asked again, and where it then fails.
        """
        due = {command for name in names if (command := self._command(name))}
        now = self._monotonic()
        for command in due:
            if command not in self._asked and now >= self._printed.get(command, (now, None))[0]:
                self._asked[command] = asyncio.create_task(self._ask(command), name="a value")
        if asked := [self._asked[command] for command in due if command in self._asked]:
            await asyncio.wait(asked)

    def _command(self, name: str) -> str | None:
        """The command that a name's value comes from; None where it has another, or none."""
        self._read_file()
        if self._sent.get(name) or self._said(name) or self._said(f"{name}_FILE"):
            return None
        return self._said(f"{name}_COMMAND")

    async def _ask(self, command: str) -> None:
        try:
            value = await _printed_by(command)
            kept_s = TRIED_AGAIN_AFTER_S if value is None else KEPT_S
            known = self._printed.get(command, (0.0, None))[1]
            self._printed[command] = (self._monotonic() + kept_s, value or known)
        finally:
            del self._asked[command]

    def missing(self, wanted: list[str]) -> list[str]:
        """The wanted names without a value."""
        return [name for name in wanted if self.lookup(name) is None]

    def _read_file(self) -> None:
        if self._env_file.changed():
            before, self._in_file = self._in_file, self._env_file.values
            for name, value in self._in_file.items():
                if before.get(name) != value:  # said later than what a command said
                    self._sent.pop(name, None)


async def _printed_by(command: str) -> str | None:
    """The first line that a command prints; its words are no secret, what it prints is."""
    why = "it could not be run"
    try:
        asked = await asyncio.create_subprocess_exec(
            *("/bin/sh", "-c", command),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(COMMAND_WITHIN_S):
                printed, _ = await asked.communicate()
        finally:
            _end(asked)
        if asked.returncode == 0:
            return printed.decode("utf-8", "replace").strip().partition("\n")[0] or None
        why = f"exit code {asked.returncode}"
    except TimeoutError:
        why = f"nothing within {COMMAND_WITHIN_S:g} s"
    except OSError as error:
        why = error.strerror or why
    logger.warning("environment.command_failed", extra={"command": command, "why": why})
    return None


def _end(asked: asyncio.subprocess.Process) -> None:
    """What asks a person for a passphrase would do so for ever, its children as well."""
    with contextlib.suppress(ProcessLookupError):
        if asked.returncode is None:
            os.killpg(asked.pid, signal.SIGKILL)
