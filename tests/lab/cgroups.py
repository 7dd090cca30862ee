"""The machine's cgroup hierarchies: one folder for a lab in each, to join, to look into, to end.

Owns the paths below every cgroup mount and the killing of all that lives there. It must not know
of LXC, ssh or the lab's files.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

KILL_DEADLINE_S = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Hierarchy:
    """One mounted cgroup hierarchy of the machine."""

    mountpoint: Path
    fstype: str
    """cgroup (v1) or cgroup2"""
    options: str
    """what `mount -o` needs to mount the same hierarchy again; empty for v2"""


def hierarchies() -> list[Hierarchy]:
    """The machine's hierarchies in the order in which they are mounted."""
    found = []
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        left, _, right = line.partition(" - ")
        fstype, _source, super_options = right.split(" ", 2)
        if fstype not in {"cgroup", "cgroup2"}:
            continue
        words = [w for w in super_options.split(",") if w not in {"rw", "ro", "xattr"}]
        if fstype == "cgroup2":
            words = []
        elif any(w.startswith("name=") for w in words):
            words.insert(0, "none")
        mountpoint = Path(left.split(" ")[4])
        found.append(Hierarchy(mountpoint=mountpoint, fstype=fstype, options=",".join(words)))
    return found


def create(name: str) -> list[Path]:
    """Make the folder NAME in every hierarchy; return the folders."""
    folders = []
    for hierarchy in hierarchies():
        folder = hierarchy.mountpoint / name
        folder.mkdir(exist_ok=True)
        for setting in ("cpuset.cpus", "cpuset.mems"):
            # A new v1 cpuset is empty, and nothing may join it before it has processors and memory.
            if hierarchy.fstype == "cgroup" and (folder / setting).exists():
                (folder / setting).write_text((hierarchy.mountpoint / setting).read_text())
        folders.append(folder)
    return folders


def joining(name: str, argv: list[str]) -> list[str]:
    """The command line that enters NAME in every hierarchy and becomes ARGV."""
    script = 'while [ "$1" != -- ]; do echo 0 > "$1"; shift; done; shift; exec "$@"'
    files = [str(h.mountpoint / name / "cgroup.procs") for h in hierarchies()]
    return ["/bin/sh", "-c", script, "join", *files, "--", *argv]


def _folders(name: str) -> Iterator[Path]:
    for hierarchy in hierarchies():
        top = hierarchy.mountpoint / name
        for folder, _, _ in os.walk(top, topdown=False):
            yield Path(folder)


def pids(name: str) -> set[int]:
    """Every process that is in NAME or below it in any hierarchy, as the machine counts them."""
    found: set[int] = set()
    for folder in _folders(name):
        try:
            found.update(int(word) for word in (folder / "cgroup.procs").read_text().split())
        except OSError:
            continue  # removed while we looked
    return found - {0}


def kill(name: str, *, keep: set[int]) -> None:
    """Kill everything in NAME but KEEP, and wait until it is gone.

    Raises TimeoutError when something cannot be killed within KILL_DEADLINE_S.
    """
    deadline = time.monotonic() + KILL_DEADLINE_S
    while left := pids(name) - keep:
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        if time.monotonic() > deadline:
            raise TimeoutError(f"cgroup {name} still holds processes {sorted(left)} after SIGKILL")
        time.sleep(0.005)


def end(name: str) -> None:
    """Kill everything in NAME and remove it from every hierarchy.

    Raises TimeoutError when something stays for KILL_DEADLINE_S.
    """
    deadline = time.monotonic() + KILL_DEADLINE_S
    while True:
        for folder in _folders(name):
            # A frozen v1 process does not even die of SIGKILL before it is thawed.
            if (folder / "freezer.state").exists():
                (folder / "freezer.state").write_text("THAWED")
        kill(name, keep=set())
        if _remove(name):
            return
        if time.monotonic() > deadline:
            raise TimeoutError(f"cgroup {name} cannot be removed, though no process is in it")
        time.sleep(0.005)


def _remove(name: str) -> bool:
    gone = True
    for folder in _folders(name):
        try:
            folder.rmdir()
        except FileNotFoundError:
            continue
        except OSError:
            gone = False
    return gone
