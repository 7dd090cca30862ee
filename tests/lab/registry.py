"""Which labs exist on this machine, and whether the process that owns each still lives.

Owns /run/orch-lab: one record a lab, written before anything else of it exists, so that the next
start can clean up after an owner that was killed. It removes only what a record names.
"""

from __future__ import annotations

import fcntl
import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.lab import cgroups

REGISTRY = Path("/run/orch-lab")


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What one lab has on the machine."""

    lab_id: str
    owner_pid: int
    owner_started: int
    """clock ticks since boot at which the owner started: PIDs are used again, this pair is not"""
    folder: str
    cgroup: str
    link: str
    """name of the veth end on the machine; empty without a network namespace"""

    @property
    def path(self) -> Path:
        """Where the record is kept."""
        return REGISTRY / f"{self.lab_id}.json"


def started_at(pid: int) -> int | None:
    """Start time of PID in clock ticks since boot, None when there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] == "Z" else int(fields[19])


@contextmanager
def locked() -> Iterator[None]:
    """Hold the machine-wide lock of the labs."""
    REGISTRY.mkdir(mode=0o755, exist_ok=True)
    with (REGISTRY / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def write(record: Record) -> None:
    """Keep RECORD."""
    record.path.write_text(json.dumps(asdict(record)))


def records() -> list[Record]:
    """Every lab on the machine; a torn record counts for nothing."""
    found = []
    for path in sorted(REGISTRY.glob("*.json")):
        try:
            found.append(Record(**json.loads(path.read_text())))
        except (OSError, ValueError, TypeError):
            continue
    return found


def dismantle(record: Record) -> None:
    """End all processes of the lab (its mounts go with them), then its cgroups, link and files."""
    cgroups.end(record.cgroup)
    if record.link:
        subprocess.run(["ip", "link", "del", record.link], capture_output=True, check=False)
    shutil.rmtree(record.folder, ignore_errors=True)
    record.path.unlink(missing_ok=True)


def sweep() -> list[str]:
    """Dismantle the labs whose owner is gone; return their ids."""
    swept = []
    with locked():
        for record in records():
            if started_at(record.owner_pid) == record.owner_started:
                continue
            try:
                dismantle(record)
            except TimeoutError:
                continue  # its record stays for the next sweep; no new lab waits for an old one
            swept.append(record.lab_id)
    return swept
