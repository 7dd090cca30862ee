"""Processes of a job's earlier runs that nobody watches any more: found and, if told, ended.

Owns how they are known: by the run's variables in their environment, whatever their parent is, and
by what the run's relay wrote down of those that have no such environment.
"""

import os
import re
import signal
import time
from typing import NamedTuple

from . import procfs
from .belonging import orphans_of

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
    table = {entry.pid: entry for entry in procfs.every()}
    of_run: dict[int, str] = {}
    for (pid, start), run in _orphans(runs, name, uid).items():
        if pid in table and table[pid].start == start:
            of_run |= dict.fromkeys(procfs.with_descendants({pid}, table), run)
    for pid in table:
        environment = procfs.environment(pid)
        run, folder = environment.get("ORCH_RUN_ID", ""), environment.get("ORCH_RUN_DIR", "")
        ours = name.fullmatch(run) and os.path.realpath(folder).startswith(runs)
        own = uid is not None and folder.rstrip("/").endswith(f".{uid}")
        if ours and not own:
            of_run[pid] = run
    return [
        Leftover(pid, table[pid].start, run, procfs.command_line(pid))
        for pid, run in sorted(of_run.items())
        if table[pid].state != procfs.ZOMBIE
    ]


def _orphans(runs: str, name: "re.Pattern[str]", uid: str | None) -> dict[tuple[int, int], str]:
    """PID and start -> run, of what lived on when attempts of the job ended."""
    found: dict[tuple[int, int], str] = {}
    for folder in _names(runs):
        run, _, its_uid = folder.rpartition(".")
        if not name.fullmatch(run) or its_uid == uid:
            continue
        for attempt in _names(os.path.join(runs, folder)):
            found |= dict.fromkeys(orphans_of(os.path.join(runs, folder, attempt)), run)
    return found


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


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
