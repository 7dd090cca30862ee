"""The relay of an adoption: what a pane prints goes to the log, and its end is seen if it can be.

tmux's pipe-pane runs it, or the probe for a bare PID. It is nobody's parent, so an exit code is
known only where tmux kept it of the pane itself; else the attempt ends without a record.
"""

import os
import select
import signal
import subprocess
import time
from typing import Any

from . import procfs
from .files import read_record, write_record
from .logfile import LogFile
from .names import (
    ADOPTION_FILE,
    ATTEMPT_FILE,
    EXIT_FILE,
    LOG_FILE,
    POKE_BYTES,
    POKE_RECORD,
    SCROLLBACK_FILE,
)
from .opening import Misplaced, read_file
from .poke import Bell

SCROLLBACK_WITHIN_S = 30.0
READ_BYTES = 64 * 1024
LOOK_S = 0.5
QUIET_LOOKS = 2
STATUS_LOOK_S = 0.1
STATUS_WITHIN_S = 15.0
"""A tmux server that gets no turn on a busy machine reaps late; a pane that is gone ends it."""
SEAM = "[orch] adopted here: above is what tmux still had, below is everything from now on\r\n"


def main(directory: str) -> int:
    """Follow one adopted program to its end."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_IGN)
    adoption = read_record(os.path.join(directory, ADOPTION_FILE))
    if adoption is None:
        return 1
    return Adopted(directory, adoption).follow()


class Adopted:
    """One adoption."""

    def __init__(self, directory: str, adoption: dict[str, Any]) -> None:
        self._directory, self._adoption = directory, adoption
        self._pid, self._start = int(adoption["pid"]), int(adoption["start"])
        # Of a bare PID the log is a link to the file that it writes itself.
        self._log = LogFile(directory) if adoption["pane"] else None
        self._log_path = os.path.join(directory, LOG_FILE)
        self._listening = self._log is not None
        self._bell = Bell(directory)

    def follow(self) -> int:
        """Until the program has gone and nothing more comes."""
        if self._log is not None:
            self._take_scrollback(self._log)
        self._tell()
        quiet, size = 0, -1
        while quiet < QUIET_LOOKS:
            if self._listened(LOOK_S):
                continue
            if self._log is not None and self._log.behind:
                self._log.retry()
            size = self._poke_if_grown(size)
            quiet = 0 if procfs.lives(self._pid, self._start) else quiet + 1
        self._finish()
        return 0

    def _listened(self, within_s: float) -> bool:
        """Whether the pane printed something, which is in the log now."""
        ready = select.select([0] if self._listening else [], [], [], within_s)[0]
        chunk = os.read(0, READ_BYTES) if ready else b""
        if ready and not chunk:
            self._listening = False  # the pane, or our pipe from it, has ended
        if not chunk or self._log is None:
            return False
        self._log.append(chunk)
        self._bell.ring(POKE_BYTES)
        return True

    def _take_scrollback(self, log: LogFile) -> None:
        """What was there before comes first; the pipe waits for it meanwhile."""
        path = os.path.join(self._directory, SCROLLBACK_FILE)
        deadline = time.monotonic() + SCROLLBACK_WITHIN_S
        while not os.path.exists(path) and time.monotonic() < deadline:
            time.sleep(0.01)
        try:
            log.append(read_file(path))
        except (FileNotFoundError, Misplaced):
            pass
        log.append(SEAM.encode())

    def _poke_if_grown(self, size: int) -> int:
        """Wake the probe where a file grew that somebody else writes."""
        if self._log is not None:
            return size
        try:
            now = os.stat(self._log_path).st_size
        except OSError:
            now = 0
        if now != size:
            self._bell.ring(POKE_BYTES)
        return now

    def _tell(self) -> None:
        names = ("run", "uid", "attempt", "session", "pid", "start", "started_at")
        record = {name: self._adoption[name] for name in names}
        record |= {
            "relay_pid": os.getpid(),
            "relay_start": procfs.start_time(os.getpid()),
            "boot_id": procfs.boot_id(),
            "detached": False,
        }
        write_record(os.path.join(self._directory, ATTEMPT_FILE), record)

    def _finish(self) -> None:
        """The exit record, where tmux saw the program end as the pane's own."""
        code, number = self._status()
        if self._log is not None:
            self._log.give_up()
        if code is None and number is None:
            return
        record = {
            "code": code if number is None else None,
            "signal": number,
            "started_at": self._adoption["started_at"],
            "ended_at": time.time(),
            "boot_id": procfs.boot_id(),
            "log_bytes": os.stat(self._log_path).st_size if self._log is None else self._log.size,
            "dropped_bytes": 0,
        }
        write_record(os.path.join(self._directory, EXIT_FILE), record)
        self._bell.ring(POKE_RECORD)

    def _status(self) -> tuple[int | None, int | None]:
        """Code and signal of the pane; tmux before 3.3 tells a signal as no code."""
        pane = self._adoption["pane"]
        if pane is None or self._pid != self._adoption["pane_pid"]:
            return None, None
        deadline = time.monotonic() + STATUS_WITHIN_S
        while time.monotonic() < deadline:
            said = self._ask_tmux(pane)
            # A tmux that got no turn when the program ended has its last words still.
            while self._listened(STATUS_LOOK_S):
                pass
            if said == "":
                return None, None
            words = (said or "").split(":")
            if len(words) == 3 and words[0] == "1":
                return _number(words[1]), _number(words[2]) or None
        return None, None

    def _ask_tmux(self, pane: str) -> str | None:
        """What tmux says of the pane; empty where it is gone, None where tmux did not answer."""
        socket = self._adoption.get("socket")
        chosen = [] if not socket else ["-S" if "/" in socket else "-L", socket]
        form = "#{pane_dead}:#{pane_dead_status}:#{pane_dead_signal}"
        words = ["tmux", *chosen, "display-message", "-p", "-t", pane, form]
        try:
            done = subprocess.run(words, capture_output=True, timeout=5, check=False)
        except (OSError, subprocess.SubprocessError):
            return None
        return done.stdout.decode("ascii", "replace").strip()


def _number(word: str) -> int | None:
    return int(word) if word.isdigit() else None
