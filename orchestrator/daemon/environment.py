"""Values of secrets and sink addresses: kept in memory only, looked up by name.

They come from the daemon's own environment, from clients that start it or use it, and from
`$XDG_CONFIG_HOME/orch/env` (NAME=value lines, mode 0600), read at start and when it changes.
"""

import logging
import re
import stat
from collections.abc import Mapping
from pathlib import Path

from orchestrator.core.model import Inventory

logger = logging.getLogger(__name__)
_LINE = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)=(.*)")


def wanted_names(inventory: Inventory) -> list[str]:
    """Names of the variables that an inventory needs values for."""
    names = {name for job in inventory.jobs.values() for name in job.secrets}
    for sink in inventory.alerts.sinks:
        names |= {name for name in (sink.url_env, sink.secret_env) if name}
    if inventory.alerts.heartbeat_url_env:
        names.add(inventory.alerts.heartbeat_url_env)
    return sorted(names)


class Environment:
    """Looks names up; what a client sent wins over the file, the file over our own environment."""

    def __init__(self, own: Mapping[str, str], file: Path) -> None:
        self._own = dict(own)
        self._sent: dict[str, str] = {}
        self._file = file
        self._stamp: tuple[int, int] | None = None
        self._in_file: dict[str, str] = {}

    def accept(self, values: Mapping[str, str], wanted: list[str]) -> list[str]:
        """Keep the values whose names are wanted; answers their names."""
        taken = {name: value for name, value in values.items() if name in wanted and value}
        self._sent.update(taken)
        return sorted(taken)

    def lookup(self, name: str) -> str | None:
        """The value of a name, or None where it is found nowhere."""
        self._read_file()
        return self._sent.get(name) or self._in_file.get(name) or self._own.get(name) or None

    def missing(self, wanted: list[str]) -> list[str]:
        """The wanted names without a value."""
        return [name for name in wanted if self.lookup(name) is None]

    def _read_file(self) -> None:
        try:
            status = self._file.stat()
        except OSError:
            self._in_file, self._stamp = {}, None
            return
        stamp = (status.st_mtime_ns, status.st_size)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        if stat.S_IMODE(status.st_mode) & 0o077:
            logger.warning("environment.file_refused", extra={"path": str(self._file)})
            self._in_file = {}
            return
        self._in_file = _parse(self._file.read_text(encoding="utf-8", errors="replace"))


def _parse(text: str) -> dict[str, str]:
    values = {}
    for line in text.splitlines():
        if found := _LINE.fullmatch(line):
            value = found[2].strip()
            if len(value) >= 2 and value[0] == value[-1] and value[0] in "'\"":
                value = value[1:-1]
            values[found[1]] = value
    return values
