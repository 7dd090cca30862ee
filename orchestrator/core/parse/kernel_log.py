"""Lines of a kernel log -> events that concern a run: Xid, OOM kills, segfaults.

Owns the two forms in which the line arrives (dmesg's and journald's); joins nothing to a run.
"""

import re
from dataclasses import dataclass
from enum import StrEnum


class KernelEventKind(StrEnum):
    """What the kernel reported."""

    XID = "xid"
    OOM_KILL = "oom_kill"
    SEGFAULT = "segfault"
    BUS_LOST = "bus_lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelEvent:
    """One thing the kernel reported about a process or a card."""

    kind: KernelEventKind
    text: str
    at: float | None = None
    """Unix seconds, where the caller knows them."""
    pid: int | None = None
    name: str | None = None
    xid: int | None = None
    pci: str | None = None
    cgroup: str | None = None
    """The cgroup of the process that was killed, as the kernel names it."""


_XID = re.compile(
    r"NVRM: Xid \((?:PCI:)?(?P<pci>[0-9a-fA-F:.]+)\): (?P<xid>\d+)(?:, pid='?(?P<pid>\d+)'?)?(?:, name=(?P<name>[^,]+))?"
)
_BUS = re.compile(r"NVRM: GPU (?:at PCI:)?(?P<pci>[0-9a-fA-F:.]+?):? .{0,60}fallen off the bus")
_OOM = re.compile(
    r"(?:Out of memory|out of memory): Kill(?:ed)? process (?P<pid>\d+) \((?P<name>[^)]*)\)"
)
_OOM_TASK = re.compile(
    r"oom-kill:.*?task_memcg=(?P<cgroup>[^,]+),task=(?P<name>[^,]+),pid=(?P<pid>\d+)"
)
_SEGFAULT = re.compile(r"(?P<name>[^\s\[]+)\[(?P<pid>\d+)\]: segfault at ")


def read_kernel_line(line: str, at: float | None = None) -> KernelEvent | None:
    """The event of one kernel line; None for nearly every line."""
    for pattern, kind in (
        (_XID, KernelEventKind.XID),
        (_BUS, KernelEventKind.BUS_LOST),
        (_OOM_TASK, KernelEventKind.OOM_KILL),
        (_OOM, KernelEventKind.OOM_KILL),
        (_SEGFAULT, KernelEventKind.SEGFAULT),
    ):
        if found := pattern.search(line):
            values = found.groupdict()
            return KernelEvent(
                kind=kind,
                text=line.strip(),
                at=at,
                pid=int(values["pid"]) if values.get("pid") else None,
                name=(values.get("name") or "").strip() or None,
                xid=int(values["xid"]) if values.get("xid") else None,
                pci=values.get("pci"),
                cgroup=values.get("cgroup"),
            )
    return None
