"""Processes of a job's earlier runs that nobody watches any more: found and, if told, ended.

Owns how they are known: by the run's variables in their environment, whatever their parent is.
"""

import os
import re
import signal
import time
from typing import NamedTuple

from . import procfs

TERM_WITHIN_S = 10.0
KILL_WITHIN_S = 5.0
_LOOK_S = 0.05


class Leftover(NamedTuple):
    """One process; PID and start time name it for good."""

    pid: int
    start: int
    run: str
    command: str


def of_job(job: str, workdir: str, uid: str | None) -> list[Leftover]:
    """All of the job's runs below a workdir, without those of the run `uid` itself."""
    name = re.compile(re.escape(job) + r"-\d+")
    runs = os.path.join(os.path.realpath(workdir), "runs") + "/"
    found = []
    for entry in procfs.every():
        environment = procfs.environment(entry.pid)
        run, folder = environment.get("ORCH_RUN_ID", ""), environment.get("ORCH_RUN_DIR", "")
        ours = name.fullmatch(run) and os.path.realpath(folder).startswith(runs)
        own = uid is not None and folder.rstrip("/").endswith(f".{uid}")
        if ours and not own and entry.state != procfs.ZOMBIE:
            command = procfs.command_line(entry.pid)
            found.append(Leftover(entry.pid, entry.start, run, command))
    return found


def stop(found: list[Leftover]) -> list[Leftover]:
    """SIGTERM, then SIGKILL; what is still there after that."""
    for number, within_s in ((signal.SIGTERM, TERM_WITHIN_S), (signal.SIGKILL, KILL_WITHIN_S)):
        for item in found:
            if procfs.lives(item.pid, item.start):
                _send(item.pid, number)
        deadline = time.monotonic() + within_s
        while found and time.monotonic() < deadline:
            found = [item for item in found if procfs.lives(item.pid, item.start)]
            time.sleep(_LOOK_S)
        if not found:
            break
    return found


def _send(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        # Gone meanwhile, or not ours to end: what remains is named by the caller.
        pass
