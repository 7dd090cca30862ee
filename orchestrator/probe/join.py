"""Joins a PID of the host to the container it is in, its PID there, and its run.

The readers of text are pure; `place_of` and `run_of` feed them from /proc.
"""

import os
import re
from typing import NamedTuple

from . import procfs
from .engines import name_of

_CONTAINER = re.compile(
    r"/lxc\.payload[./](?P<payload>[^/]+)"
    r"|/lxc/(?P<lxc>[^/]+)"
    r"|/docker[-/](?P<docker>[0-9a-f]{12,64})"
    r"|/libpod-(?P<podman>[0-9a-f]{12,64})"
)


_GENERATIONS = 32


class Place(NamedTuple):
    """Where a PID is; both None on the host itself."""

    container: str | None
    pid: int | None


def container_of(cgroup: str) -> str | None:
    """Name of the outermost container in the text of /proc/PID/cgroup; None on the host.

    Proxmox says `/lxc/200/ns`, plain LXC `/lxc.payload.NAME`, docker and podman an id.
    """
    for line in cgroup.splitlines():
        path = line.split(":", 2)[-1]
        if path.startswith("/.."):
            # Outside of the cgroup namespace that we are in: not one of ours.
            continue
        match = _CONTAINER.search(path)
        if match:
            return next(name for name in match.groups() if name)
    return None


def pid_inside(pid: int) -> int | None:
    """The PID that a PID has in its container, for as long as it is not reaped; None on the host.

    A zombie has no cgroup any more, but both its PIDs.
    """
    inside = innermost_pid(_text(f"/proc/{pid}/status"))
    return inside if inside != pid else None


def innermost_pid(status: str) -> int | None:
    """Last PID of the NSpid line of /proc/PID/status: its own, inside the innermost namespace."""
    for line in status.splitlines():
        if line.startswith("NSpid:"):
            return int(line.split()[-1])
    return None


def place_of(pid: int) -> Place:
    """Container, by its name, and PID in it; of the host where the PID is in none, or has ended.

    A zombie has left its cgroup, so its parent's counts: that lives, and reaps it.
    """
    status = _text(f"/proc/{pid}/status")
    container = container_of(_text(f"/proc/{pid}/cgroup"))
    entry = procfs.stat(pid)
    if container is None and entry is not None and entry.state == procfs.ZOMBIE:
        container = container_of(_text(f"/proc/{entry.parent}/cgroup"))
    if container is None:
        return Place(None, None)
    return Place(name_of(container), innermost_pid(status))


class Belongs(NamedTuple):
    """The run that a PID is of; both None where it is of none."""

    run: str | None
    directory: str | None


def run_of(pid: int) -> Belongs:
    """By its environment or its parents', or by the relay that it descends from."""
    for _ in range(_GENERATIONS):
        environment = procfs.environment(pid)
        if "ORCH_RUN_ID" in environment:
            return Belongs(environment["ORCH_RUN_ID"], environment.get("ORCH_RUN_DIR"))
        directory = attempt_of_relay(procfs.arguments(pid))
        if directory is not None:
            run_dir = os.path.dirname(directory.rstrip("/"))
            return Belongs(os.path.basename(run_dir).rpartition(".")[0], run_dir)
        entry = procfs.stat(pid)
        if entry is None or entry.parent <= 1:
            break
        pid = entry.parent
    return Belongs(None, None)


def attempt_of_relay(argv: list[str]) -> str | None:
    """The attempt's folder where an argv is a relay's: `... probe.pyz attempt FOLDER`."""
    if len(argv) >= 3 and argv[-2] == "attempt" and argv[-3].endswith(".pyz"):
        return argv[-1]
    return None


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
