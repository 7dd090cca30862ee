"""Lines of a kernel log -> events that concern a run: Xid, OOM kills, segfaults, hung tasks, disks.

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
    HUNG_TASK = "hung_task"
    NVSWITCH = "nvswitch"
    """An error of the switch that joins the GPUs of one machine (SXid)."""
    DISK_ERROR = "disk_error"


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
_SEGFAULT = re.compile(
    r"(?P<name>[^\s\[]+)\[(?P<pid>\d+)\]:? (?:segfault at |general protection fault|trap invalid opcode)"
)
_GENERAL = re.compile(
    r"traps: (?P<name>[^\s\[]+)\[(?P<pid>\d+)\] (?:general protection|trap invalid opcode)"
)
_HUNG = re.compile(r"task (?P<name>.{1,20}):(?P<pid>\d+) blocked for more than \d+ seconds")
_NVSWITCH = re.compile(r"SXid \((?:PCI:)?(?P<pci>[0-9a-fA-F:.]+)\): (?P<xid>\d+)")
_DISK = re.compile(r"I/O error, dev (?P<name>[\w-]+)")
_FILE_SYSTEM = re.compile(
    r"(?:EXT4-fs error|BTRFS:? (?:error|critical)) \(device (?P<name>[^)]+)\)"
    r"|XFS \((?P<xfs>[^)]+)\): .*(?:error|corruption|shut down)"
)
_NVME = re.compile(r"nvme (?P<name>nvme\d+): .*(?:timeout|reset|error|aborting|down)")


def read_kernel_line(line: str, at: float | None = None) -> KernelEvent | None:
    """The event of one kernel line; None for nearly every line."""
    for pattern, kind in (
        (_XID, KernelEventKind.XID),
        (_BUS, KernelEventKind.BUS_LOST),
        (_OOM_TASK, KernelEventKind.OOM_KILL),
        (_OOM, KernelEventKind.OOM_KILL),
        (_SEGFAULT, KernelEventKind.SEGFAULT),
        (_GENERAL, KernelEventKind.SEGFAULT),
        (_HUNG, KernelEventKind.HUNG_TASK),
        (_NVSWITCH, KernelEventKind.NVSWITCH),
        (_DISK, KernelEventKind.DISK_ERROR),
        (_FILE_SYSTEM, KernelEventKind.DISK_ERROR),
        (_NVME, KernelEventKind.DISK_ERROR),
    ):
        if found := pattern.search(line):
            values = found.groupdict()
            return KernelEvent(
                kind=kind,
                text=line.strip(),
                at=at,
                pid=int(values["pid"]) if values.get("pid") else None,
                name=_name(values),
                xid=int(values["xid"]) if values.get("xid") else None,
                pci=values.get("pci"),
                cgroup=values.get("cgroup"),
            )
    return None


def _name(values: dict[str, str | None]) -> str | None:
    """Of a process, or of a disk or the file system on it."""
    found = values.get("name") or values.get("xfs") or ""
    return found.strip() or None
