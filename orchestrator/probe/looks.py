"""Looks of the preflight beyond the working folder: ports, data, limits, driver and libraries.

Each gives its checks and changes nothing; preflight.py calls them. Stdlib only, Python 3.10.
"""

import os
import re
import resource
import socket
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from . import procfs
from .frames import Frame

Checks = list[Frame]

OPEN_FILES = 4096
PROCESSES = 4096
SHARED_MEMORY_BYTES = 1024**3
LOCKED_BYTES = 64 * 1024 * 1024
DATA_WITHIN_S = 10.0
REACHED_WITHIN_S = 5.0
_SHARED_MEMORY = "/dev/shm"  # noqa: S108  the kernel's place for it, not a file of ours
_INFINIBAND = "/dev/infiniband"
_MODULE = ("/proc/driver/nvidia/version", "/sys/module/nvidia/version")
_LIBRARIES = ("libcuda.so.1", "libnvidia-ml.so.1")
_LIBRARY_FOLDERS = (
    "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib",
    "/usr/local/nvidia/lib64", "/usr/lib/wsl/lib",
)  # fmt: skip
_COMPAT = "compat"
"""In the name of a folder with CUDA's forward-compatible libraries, which are newer on purpose."""
_VERSION = re.compile(r"(\d{3,}\.\d+(?:\.\d+)?)")
_LISTENING = "0A"


def check(name: str, ok: bool, text: str, remedy: str = "", *, critical: bool = True) -> Frame:
    """One check as the wire has it; the remedy is of use only where it failed."""
    return {
        "name": name,
        "ok": ok,
        "text": text,
        "remedy": None if ok else remedy or None,
        "critical": critical,
    }


def size(count: float) -> str:
    """Bytes in powers of 1024."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


# --- ports


def ports(wanted: Frame) -> Checks:
    """Ports on which the job will listen."""
    taken = {port: why for port in wanted["ports"] if (why := _taken(port)) is not None}
    if not taken:
        named = ", ".join(map(str, wanted["ports"]))
        return [check("ports", True, f"free: port {named}")] if named else []
    return [
        check(
            "ports", False, f"port {port} is taken: {why}",
            "End what listens there, or give the job another port.",
        )
        for port, why in taken.items()
    ]  # fmt: skip


def _taken(port: int) -> str | None:
    """Who has a port, or why it cannot be had; None where it is free."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as trial:
        # Connections that have ended must not count, and with this do not; a listener does.
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind(("", port))
            trial.listen(1)
        except OSError as exc:
            return _listener(port) or exc.strerror or str(exc)
    return None


def _listener(port: int) -> str | None:
    inodes = {inode for table in ("tcp", "tcp6") for inode in _listening(table, port)}
    for pid in (one.pid for one in procfs.every()):
        try:
            names = os.listdir(f"/proc/{pid}/fd")
        except OSError:
            continue
        for name in names:
            try:
                link = os.readlink(f"/proc/{pid}/fd/{name}")
            except OSError:
                continue
            if link.startswith("socket:[") and link[8:-1] in inodes:
                return f"PID {pid} ({procfs.command_line(pid)[:80]})"
    return None


def _listening(table: str, port: int) -> list[str]:
    try:
        with open(f"/proc/net/{table}", encoding="ascii") as file:
            rows = [line.split() for line in file][1:]
    except OSError:
        return []
    return [
        row[9]
        for row in rows
        if row[3] == _LISTENING and int(row[1].rpartition(":")[2], 16) == port
    ]


# --- data


def data(wanted: Frame) -> Checks:
    """Paths that the job reads."""
    bad = {path: why for path in wanted["paths"] if (why := _unreadable(path)) is not None}
    if not bad:
        named = ", ".join(wanted["paths"])
        return [check("data", True, f"can be read: {named}")] if named else []
    return [
        check("data", False, f"{path} cannot be read: {why}", _data_remedy(why))
        for path, why in bad.items()
    ]


def _data_remedy(why: str) -> str:
    if why == _SILENT:
        return "Mount it anew: a network file system whose server is gone does so."
    return "Mount or copy it there, and let the target's user read it."


_SILENT = f"no answer within {DATA_WITHIN_S:g} s"


def _unreadable(path: str) -> str | None:
    """Why a path cannot be read; in a thread, since a dead mount holds a call for ever."""
    said: list[str | None] = []
    looking = threading.Thread(target=lambda: said.append(_look(path)), daemon=True)
    looking.start()
    looking.join(DATA_WITHIN_S)
    return said[0] if said else _SILENT


def _look(path: str) -> str | None:
    try:
        if os.path.isdir(path):
            with os.scandir(path) as names:
                next(names, None)
        else:
            # Non-blocking, so that a FIFO of that name holds nobody up.
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            try:
                os.read(fd, 1)
            finally:
                os.close(fd)
    except OSError as exc:
        return exc.strerror or str(exc)
    return None


# --- limits


def limits(_wanted: Frame) -> Checks:
    """What a process may have here; the hard limit counts, a program may raise itself to it."""
    files, tasks = _most(resource.RLIMIT_NOFILE), _most(resource.RLIMIT_NPROC)
    low = []
    if files < OPEN_FILES:
        low.append(f"{files:.0f} open files (nofile)")
    if tasks < PROCESSES:
        low.append(f"{tasks:.0f} processes and threads (nproc)")
    if os.path.isdir(_INFINIBAND) and _most(resource.RLIMIT_MEMLOCK) < LOCKED_BYTES:
        low.append(f"{_most(resource.RLIMIT_MEMLOCK):.0f} bytes of locked memory (memlock)")
    text = f"a process may have only {', '.join(low)}" if low else "limits are high enough"
    remedy = "Raise them for the container (lxc.prlimit.*), or in /etc/security/limits.conf."
    return [check("limits", not low, text, remedy, critical=False)]


def shared_memory(_wanted: Frame) -> Checks:
    """What workers that share tensors have for it."""
    try:
        space = os.statvfs(_SHARED_MEMORY)
    except OSError:
        held = 0
    else:
        held = space.f_blocks * space.f_frsize
    return [
        check(
            "shm", held >= SHARED_MEMORY_BYTES, f"{_SHARED_MEMORY} has {size(held)}",
            "Workers that share tensors need more: mount a tmpfs of 1 GiB or more there.",
            critical=False,
        )
    ]  # fmt: skip


def _most(kind: int) -> float:
    hard = resource.getrlimit(kind)[1]
    return float("inf") if hard == resource.RLIM_INFINITY else hard


# --- driver and libraries


def driver(wanted: Frame) -> Checks:
    """Whether the driver in the kernel and the libraries here are of one version."""
    own = (wanted.get("library_path") or "").split(":")
    folders = [*(one for one in own if one and _COMPAT not in one), *_LIBRARY_FOLDERS]
    found = {name: library_version(name, folders) for name in _LIBRARIES}
    return match(_module_version(), found, needed=bool(wanted.get("needed")))


def match(module: str | None, libraries: Mapping[str, str | None], *, needed: bool) -> Checks:
    """The checks for a driver's version and those of its libraries; None: there is none."""
    if module is None:
        return []
    other = [
        f"{name} is {version or 'not there'}"
        for name, version in libraries.items()
        if version != module
    ]
    if not other:
        return [check("driver", True, f"driver and libraries are {module}")]
    differs = any(version is not None and version != module for version in libraries.values())
    blind = needed and libraries.get(_LIBRARIES[0]) is None
    return [
        check(
            "driver", False, f"the kernel's NVIDIA driver is {module}; {', '.join(other)}",
            "Install the same version's libraries in the container (the driver's .run file with "
            "--no-kernel-module), or reboot the host after a driver update.",
            critical=differs or blind,
        )
    ]  # fmt: skip


def library_version(name: str, folders: Sequence[str]) -> str | None:
    """Version of a library, from the name of the file that it is a link to."""
    for folder in folders:
        path = os.path.realpath(os.path.join(folder, name))
        found = _VERSION.search(os.path.basename(path))
        if found is not None and os.path.isfile(path):
            return found[1]
    return None


def _module_version() -> str | None:
    for path in _MODULE:
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                found = _VERSION.search(file.readline())
        except OSError:
            continue
        if found is not None:
            return found[1]
    return None


# --- whom the relay would alert itself


def wrapper_alert(wanted: Frame) -> Checks:
    """Whether the receivers can be reached from here; nothing is sent to them."""
    checks = []
    for one in wanted["to"]:
        place = f"{one['name']} ({one['host']}:{one['port']})"
        why = _no_way(one["host"], one["port"])
        text = f"no daemon within {wanted['within_s']:g} s of a bad end: the run alerts {place}"
        if why is not None:
            text = f"the run cannot alert {place} itself: {why}"
        remedy = "Let the target reach it, or take `wrapper_alert` off that sink."
        checks.append(check("wrapper_alert", why is None, text, remedy, critical=False))
    return checks


def _no_way(host: str, port: int) -> str | None:
    try:
        socket.create_connection((host, port), timeout=REACHED_WITHIN_S).close()
    except OSError as exc:
        return exc.strerror or str(exc) or type(exc).__name__
    return None


LOOKS: dict[str, Any] = {
    "wrapper_alert": wrapper_alert,
    "shm": shared_memory,
    "ports": ports,
    "data": data,
    "limits": limits,
    "driver": driver,
}
