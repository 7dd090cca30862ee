"""`$XDG_CONFIG_HOME/orch/env`: lines NAME=value of a file that nobody else may read.

Owns when it is read again, and what is said of a file or a line that is not taken. Must not: say
a value, or a word of a line that is none.
"""

import logging
import os
import re
import stat
from pathlib import Path

logger = logging.getLogger(__name__)
_LINE = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)=(.*)")
_NOTHING = re.compile(r"\s*(?:#.*)?")


class EnvFile:
    """The values of the file as it is now; `shown` is how a person writes its name."""

    def __init__(self, path: Path, shown: str) -> None:
        self._path, self._shown = path, shown
        self._stamp: tuple[int, ...] | None = None
        self.values: dict[str, str] = {}
        self.faults: tuple[str, ...] = ()
        """Sentences on what is not taken, each with its place and its remedy."""

    def changed(self) -> bool:
        """Read it where it is another, and say whether it was; its mode counts as well."""
        try:
            status = self._path.stat()
        except OSError:
            gone, self._stamp = self._stamp is not None, None
            self.values, self.faults = {}, ()
            return gone
        # The time of the mode's last change is there too: chmod leaves the file's own as it was.
        stamp = (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_mode)
        if stamp == self._stamp:
            return False
        self._stamp = stamp
        self.values, self.faults = self._read(status)
        if self.faults:
            logger.warning("environment.file_faults", extra={"faults": list(self.faults)})
        return True

    def _read(self, status: os.stat_result) -> tuple[dict[str, str], tuple[str, ...]]:
        mode = stat.S_IMODE(status.st_mode)
        if stat.S_ISREG(status.st_mode) and mode & 0o077:
            why = f"{self._shown} is there and not read, since others may read it (mode {mode:04o})"
            return {}, (f"{why}: chmod 600 {self._shown}",)
        try:
            text = self._path.read_text(encoding="utf-8", errors="replace")
        except OSError as error:  # a folder, or another user's
            return {}, (
                f"{self._shown} cannot be read ({error.strerror}): make it a file of yours",
            )
        return self._parsed(text)

    def _parsed(self, text: str) -> tuple[dict[str, str], tuple[str, ...]]:
        values, faults = {}, []
        for number, line in enumerate(text.splitlines(), 1):
            if found := _LINE.fullmatch(line):
                value = found[2].strip()
                if len(value) >= 2 and value[0] == value[-1] and value[0] in "'\"":
                    value = value[1:-1]
                values[found[1]] = value
            elif not _NOTHING.fullmatch(line):
                faults.append(f"{self._shown}:{number}: is no NAME=value, and is not taken")
        return values, tuple(faults)
