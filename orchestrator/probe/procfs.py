"""Reads /proc: who lives, who is whose child, who carries which environment.

Reads only. A PID alone names nobody (they are reused), so identity is PID and start time.
"""

import os
from collections.abc import Iterator
from typing import NamedTuple

ZOMBIE = "Z"
COMMAND_CHARS = 1000


class Stat(NamedTuple):
    """One line of /proc/PID/stat; `start` is in clock ticks since boot.

    No dataclass: the module for those costs every probe and every relay 10 ms at its start.
    """

    pid: int
    command: str
    state: str
    parent: int
    group: int
    session: int
    start: int


def _read(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.read()


def stat(pid: int) -> Stat | None:
    """Of a living (or zombie) PID; None where there is none."""
    try:
        raw = _read(f"/proc/{pid}/stat").decode("utf-8", "replace")
    except OSError:
        return None
    # The command's name may hold blanks and brackets; it ends at the last one.
    name, _, rest = raw.partition("(")[2].rpartition(")")
    fields = rest.split()
    return Stat(
        pid, name, fields[0], int(fields[1]), int(fields[2]), int(fields[3]), int(fields[19])
    )


def cpu_ticks(pid: int) -> int | None:
    """User and system time of a PID in clock ticks, all its threads; None where there is none."""
    try:
        raw = _read(f"/proc/{pid}/stat").decode("utf-8", "replace")
    except OSError:
        return None
    fields = raw.rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def start_time(pid: int) -> int | None:
    """Start of a PID in clock ticks since boot; None where there is none."""
    found = stat(pid)
    return found.start if found else None


def lives(pid: int, start: int) -> bool:
    """Whether this very PID still runs; a zombie does not."""
    found = stat(pid)
    return found is not None and found.start == start and found.state != ZOMBIE


def every() -> Iterator[Stat]:
    """All there are, without those that vanish meanwhile."""
    for name in os.listdir("/proc"):
        if name.isdigit():
            found = stat(int(name))
            if found is not None:
                yield found


def children(pid: int) -> list[tuple[int, int]]:
    """PID and start of each living child of a PID."""
    return [(one.pid, one.start) for one in every() if one.parent == pid and one.state != ZOMBIE]


def environment(pid: int) -> dict[str, str]:
    """The environment a PID was started with; empty where we may not read it."""
    try:
        raw = _read(f"/proc/{pid}/environ")
    except OSError:
        return {}
    pairs = (item.partition(b"=") for item in raw.split(b"\0") if item)
    return {os.fsdecode(key): os.fsdecode(value) for key, _, value in pairs}


def arguments(pid: int) -> list[str]:
    """The argv of a PID; empty where it has none, as a zombie."""
    try:
        raw = _read(f"/proc/{pid}/cmdline")
    except OSError:
        return []
    return raw.decode("utf-8", "replace").rstrip("\0").split("\0") if raw else []


def command_line(pid: int) -> str:
    """Arguments on one line, cut to a length; a name in brackets where there are none."""
    argv = arguments(pid)
    if argv:
        return " ".join(" ".join(argv).split())[:COMMAND_CHARS]
    found = stat(pid)
    return f"[{found.command}]" if found else ""


def boot_id() -> str:
    """Random id of this boot of the kernel; empty where it cannot be read."""
    try:
        return _read("/proc/sys/kernel/random/boot_id").decode().strip()
    except OSError:
        return ""


def age_s(started: int) -> float:
    """Seconds since a start time in clock ticks since boot."""
    uptime = float(_read("/proc/uptime").split()[0])
    return max(0.0, uptime - started / os.sysconf("SC_CLK_TCK"))


def with_descendants(roots: set[int], table: dict[int, Stat]) -> set[int]:
    """`roots` and everything below them in `table`."""
    children: dict[int, list[int]] = {}
    for entry in table.values():
        children.setdefault(entry.parent, []).append(entry.pid)
    found: set[int] = set()
    waiting = [pid for pid in roots if pid in table]
    while waiting:
        pid = waiting.pop()
        if pid not in found:
            found.add(pid)
            waiting.extend(children.get(pid, ()))
    return found
