"""What the cgroup of this place says of its memory: the limit, and how often the kernel killed.

Reads only, both versions of cgroups. It is the kernel's word where its log cannot be read.
"""

import os

ROOT = "/sys/fs/cgroup"
_UNLIMITED_BYTES = 1 << 60
"""Version 1 writes a number near 2**63 where there is no limit."""


class MemoryGroup:
    """The memory cgroup of this program; what it does not say is None."""

    def __init__(self, cgroups: str, root: str = ROOT) -> None:
        """`cgroups` is the text of /proc/self/cgroup."""
        self._events: str | None = None
        self._limits: list[str] = []
        for line in cgroups.splitlines():
            number, controllers, path = line.split(":", 2)
            if "memory" in controllers.split(","):
                self._find(os.path.join(root, "memory"), path, "oom_control", "limit_in_bytes")
                return
            if number == "0":
                self._find(root, path, "events", "max")

    def _find(self, mount: str, path: str, events: str, limit: str) -> None:
        """From the own group up to the mount's top: a namespace may hide where we really are."""
        self._events, self._limits = None, []
        while True:
            folder = os.path.join(mount, path.strip("/"))
            if self._events is None and os.path.exists(f"{folder}/memory.{events}"):
                self._events = f"{folder}/memory.{events}"
            self._limits.append(f"{folder}/memory.{limit}")
            if not path.strip("/"):
                return
            path = os.path.dirname(path.rstrip("/"))

    @property
    def oom_kills(self) -> int | None:
        """How many processes of the group the kernel has killed for memory since it was made."""
        text = _read(self._events)
        for line in text.splitlines():
            name, _, count = line.partition(" ")
            if name == "oom_kill" and count.isdigit():
                return int(count)
        return None

    @property
    def limit_bytes(self) -> int | None:
        """The lowest limit that holds for the group; None where there is none."""
        texts = (_read(path).strip() for path in self._limits)
        limits = [int(text) for text in texts if text.isdigit() and int(text) < _UNLIMITED_BYTES]
        return min(limits, default=None)


def own_group() -> MemoryGroup:
    """That of this program."""
    return MemoryGroup(_read("/proc/self/cgroup"))


def _read(path: str | None) -> str:
    if path is None:
        return ""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
