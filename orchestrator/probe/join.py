"""Joins a PID of the host to the container it is in and its PID there.

The two readers of text are pure; `place_of` feeds them from /proc.
"""

import re
from dataclasses import dataclass

_CONTAINER = re.compile(
    r"/lxc\.payload[./](?P<payload>[^/]+)"
    r"|/lxc/(?P<lxc>[^/]+)"
    r"|/docker[-/](?P<docker>[0-9a-f]{12,64})"
    r"|/libpod-(?P<podman>[0-9a-f]{12,64})"
)


@dataclass(frozen=True)
class Place:
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
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
            status = file.read()
    except OSError:
        return None
    inside = innermost_pid(status)
    return inside if inside != pid else None


def innermost_pid(status: str) -> int | None:
    """Last PID of the NSpid line of /proc/PID/status: its own, inside the innermost namespace."""
    for line in status.splitlines():
        if line.startswith("NSpid:"):
            return int(line.split()[-1])
    return None


def place_of(pid: int) -> Place:
    """Container and PID in it; of the host where the PID is in none, or has ended."""
    try:
        with open(f"/proc/{pid}/cgroup", encoding="utf-8", errors="replace") as file:
            container = container_of(file.read())
        if container is None:
            return Place(None, None)
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
            return Place(container, innermost_pid(file.read()))
    except OSError:
        return Place(None, None)
