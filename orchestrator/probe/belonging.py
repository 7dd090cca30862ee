"""What belongs to a run: by descent, by terminal session, and by the environment it carries.

The relay above a program adopts what the program leaves, so that descent holds for all of it.
"""

import os
from typing import Any

from . import procfs
from .files import identity_in, read_record
from .names import ATTEMPT_FILE, EXIT_FILE, ORPHANS_FILE
from .orphans import orphans_in


def carries(environment: dict[str, str], run: str, uid: str) -> bool:
    """Whether an environment is that of this run and not of a namesake in another state folder."""
    folder = os.path.basename(environment.get("ORCH_RUN_DIR", "").rstrip("/"))
    return environment.get("ORCH_RUN_ID") == run and folder.endswith(f".{uid}")


class Belonging:
    """Finds what belongs to one run, again and again: it may fork while it is being ended."""

    def __init__(self, run: str, uid: str, attempt_dir: str | None, pane_pids: set[int]) -> None:
        self._run = run
        self._uid = uid
        folders = _attempts(attempt_dir) if attempt_dir else []
        records = [record_of(folder) for folder in folders]
        self._programs = {one for each in records if (one := identity_in(each, "pid", "start"))}
        self._relays = {one for each in records if (one := _relay_in(each))}
        self.relay = _relay_in(record_of(attempt_dir)) if attempt_dir else None
        self._known = {one for folder in folders for one in orphans_of(folder)}
        panes = [procfs.stat(pid) for pid in pane_pids]
        self._known |= {(entry.pid, entry.start) for entry in panes if entry is not None}

    def living(self) -> dict[int, procfs.Stat]:
        """Everything of the run but its relay, by PID; zombies are dead."""
        table = {entry.pid: entry for entry in procfs.every()}
        # Once known, always ours: an environment can be unreadable, a parent can die.
        roots = {pid for pid, start in self._known if pid in table and table[pid].start == start}
        # A relay adopts what hides: forked twice, in another session, with another environment.
        roots |= self._living_relays()
        for program in self._programs:
            roots |= _session_of(*program, table)
        for pid in table:
            if carries(procfs.environment(pid), self._run, self._uid):
                roots.add(pid)
        found = procfs.with_descendants(roots, table) - self._spared(table)
        living = {pid: table[pid] for pid in found if table[pid].state != procfs.ZOMBIE}
        self._known |= {(entry.pid, entry.start) for entry in living.values()}
        return living

    def _living_relays(self) -> set[int]:
        return {pid for pid, start in self._relays if procfs.lives(pid, start)}

    def _spared(self, table: dict[int, procfs.Stat]) -> set[int]:
        """This probe and what it hangs on, and the relay, which has to write the exit record."""
        spared = {1} | self._living_relays()
        pid = os.getpid()
        while pid in table and pid not in spared:
            spared.add(pid)
            pid = table[pid].parent
        return spared


def record_of(attempt_dir: str) -> dict[str, Any] | None:
    """What an attempt says of its program and relay; None after a reboot, PIDs are others' then."""
    record = read_record(os.path.join(attempt_dir, ATTEMPT_FILE))
    return record if record and record.get("boot_id") == procfs.boot_id() else None


def _relay_in(record: dict[str, Any] | None) -> tuple[int, int] | None:
    return identity_in(record, "relay_pid", "relay_start")


def _attempts(attempt_dir: str) -> list[str]:
    """Folders of all attempts of the run: a relaunch ends what those before it left."""
    run_dir = os.path.dirname(attempt_dir.rstrip("/"))
    try:
        return [os.path.join(run_dir, name) for name in os.listdir(run_dir)]
    except OSError:
        return []


def _session_of(pid: int, start: int, table: dict[int, procfs.Stat]) -> set[int]:
    """A program and what shares its session, also where the program itself has ended.

    A PID is not given out again while a session bears it: one with another start has none of ours.
    """
    leader, first = table.get(pid), table.get(1)
    if leader is not None and leader.start != start:
        return set()
    if first is not None and first.start > start:
        # A container that was started anew counts its PIDs from 1 again.
        return set()
    return {entry.pid for entry in table.values() if pid in (entry.pid, entry.session)}


def orphans_of(attempt_dir: str) -> set[tuple[int, int]]:
    """PID and start of what lived on under the relay when an attempt, or the relay, ended."""
    return orphans_in(attempt_dir, EXIT_FILE) | orphans_in(attempt_dir, ORPHANS_FILE)
