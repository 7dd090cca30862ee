"""Lines of a host's kernel log -> what of it concerns one run, each in a sentence.

Owns the join to a run: by the container's cgroup, by the PID of a process on a GPU, by the card.
What cannot be joined is not claimed. Reads no log itself.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from orchestrator.core.detect.fingerprint import fingerprint
from orchestrator.core.events import KernelLine
from orchestrator.core.findings import Finding, Role
from orchestrator.core.model import ExitRecord, GpuSample, Severity
from orchestrator.core.parse.kernel_log import KernelEvent, KernelEventKind, read_kernel_line
from orchestrator.core.watch.xid import LOG_ONLY, XidClass, xid_class, xid_meaning, xid_title

BEFORE_END_S = 30.0
"""A process dies of its OOM kill within this time; an older one was survived."""
AFTER_END_S = 5.0
NEAR_S = 2.0

_LIMIT = re.compile(r"^memory: usage \d+kB, limit (?P<limit>\d+)kB")
_CONSTRAINT = re.compile(r"oom-kill:constraint=(?P<constraint>\w+)")
_OOM_GROUP = re.compile(r"oom_memcg=(?P<group>[^,]+)")
_ANY_CONTAINER = re.compile(r"/(?:lxc\.payload[./]|lxc/|docker[-/]|libpod-)")
_UNITS = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Whose:
    """What names a run in the words of its host's kernel."""

    run: str
    directory: str
    """Of the run on its target; tells it from a namesake of another state folder."""
    container: str | None
    """None: the run is on the host itself."""
    holders: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    """PID of the host -> process on a GPU, as in GpuSample.processes, with `pci` of its card."""


def kernel_events(
    lines: Iterable[KernelLine], whose: Whose, record: ExitRecord | None
) -> tuple[KernelEvent, ...]:
    """What explains the end of a run, oldest first; `text` of each is a sentence."""
    found: list[KernelEvent] = []
    killed: set[int | None] = set()
    limit: tuple[float, int] | None = None
    for line in lines:
        if match := _LIMIT.search(line.line):
            limit = (line.at, int(match["limit"]) * 1024)
            continue
        event = read_kernel_line(line.line, line.at)
        if event is None:
            continue
        if event.kind is KernelEventKind.OOM_KILL:
            near = limit is not None and line.at - limit[0] < NEAR_S
            ours = _killed(line, event, whose, record)
            if ours and event.pid not in killed:
                killed.add(event.pid)
                said = _oom_sentence(line, event, whose, limit[1] if limit and near else None)
                found.append(replace(event, text=said))
        elif concerns(event, whose, line) and _in_time(event, line, record):
            found.append(replace(event, text=sentence(event, line.container_pid)))
    if not killed and record is not None and record.oom_kills:
        found.append(_by_count(whose, record))
    return tuple(found)


def concerns(event: KernelEvent, whose: Whose, line: KernelLine) -> bool:
    """Whether a line is of this run's processes or cards; a disk or a switch is everybody's."""
    if event.kind is KernelEventKind.DISK_ERROR:
        return True
    if event.kind is KernelEventKind.NVSWITCH:
        return bool(_own(whose))
    if line.run is not None:
        own = {"run": line.run, "run_dir": line.run_dir}
        if _is_own(own, whose):
            return True
    holder = whose.holders.get(event.pid) if event.pid is not None else None
    if holder is not None and _is_own(holder, whose):
        return True
    cards = {_card(str(one.get("pci") or "")) for one in _own(whose)}
    if event.pci is None or _card(event.pci) not in cards:
        return False
    # A fault of the card is everybody's who is on it; a program's own fault is its own.
    own_fault = event.xid is not None and xid_class(event.xid) is XidClass.APPLICATION
    return not own_fault or event.pid is None


def _in_time(event: KernelEvent, line: KernelLine, record: ExitRecord | None) -> bool:
    """What is everybody's explains an end only shortly before it."""
    if event.kind not in (KernelEventKind.DISK_ERROR, KernelEventKind.NVSWITCH) or record is None:
        return True
    return record.ended_at - BEFORE_END_S <= line.at <= record.ended_at + AFTER_END_S


def sentence(event: KernelEvent, container_pid: int | None = None) -> str:
    """An Xid, a lost card, a segfault or a hung task, as a person would say it."""
    if event.kind is KernelEventKind.NVSWITCH:
        return f"SXid {event.xid} on {event.pci}: an error of the NVLink switch; {event.text}"
    if event.kind is KernelEventKind.DISK_ERROR:
        return f"disk {event.name}: {event.text}"
    who = f"; {event.name or 'process'}" if event.pid is not None else ""
    inside = f" (PID inside {container_pid})" if container_pid is not None else ""
    if event.kind is KernelEventKind.XID and event.xid is not None:
        kind = xid_class(event.xid)
        return f"Xid {event.xid} ({kind}) on {event.pci}: {xid_meaning(event.xid)}{who}{inside}"
    return f"{event.text}{inside}"


def xid_finding(line: KernelLine, whose: Whose) -> Finding | None:
    """The finding for a fault of card or machine that this run meets; None where it is none.

    What a program did itself (13, 31, 43 …) it will say itself as it ends.
    """
    event = read_kernel_line(line.line, line.at)
    if event is None or not concerns(event, whose, line):
        return None
    if event.kind is KernelEventKind.BUS_LOST:
        kind, title = XidClass.MACHINE, xid_meaning(79)
    elif event.kind is KernelEventKind.NVSWITCH and ", Fatal" in line.line:
        kind, title = XidClass.MACHINE, f"SXid {event.xid}: a fatal error of the NVLink switch"
    elif event.kind is KernelEventKind.XID and event.xid is not None:
        kind = xid_class(event.xid)
        title = xid_title(event.xid)
    else:
        return None
    if kind is XidClass.APPLICATION:
        return None
    return Finding(
        signature="gpu_fault",
        role=Role.ROOT,
        line=0,
        text=sentence(event, line.container_pid),
        traceback=line.line,
        severity=Severity.WARNING if event.xid in LOG_ONLY else Severity.CRITICAL,
        transient=kind is not XidClass.MACHINE,
        family="gpu_fault",
        fingerprint=fingerprint(
            signature="gpu_fault", exception=None, frame=None, in_app_frame=None, text=title
        ),
        title=title,
    )


def own_cards(samples: Sequence[GpuSample], whose: Whose) -> frozenset[int]:
    """Indexes of the GPUs that processes of the run are on."""
    return frozenset(
        sample.index for sample in samples if any(_is_own(one, whose) for one in sample.processes)
    )


def _own(whose: Whose) -> list[Mapping[str, Any]]:
    return [one for one in whose.holders.values() if _is_own(one, whose)]


def _is_own(holder: Mapping[str, Any], whose: Whose) -> bool:
    folder = str(holder.get("run_dir") or "").rstrip("/").rpartition("/")[2]
    return holder.get("run") == whose.run and folder == whose.directory.rpartition("/")[2]


def _killed(line: KernelLine, event: KernelEvent, whose: Whose, record: ExitRecord | None) -> bool:
    """Whether an OOM kill is of this run's container, and near its end."""
    if record is not None:
        if record.oom_kills == 0:
            # The container's own count knows better than a name that two hosts may share.
            return False
        if not record.ended_at - BEFORE_END_S <= line.at <= record.ended_at + AFTER_END_S:
            return False
    if event.cgroup is None:
        return False
    if whose.container is None:
        return _ANY_CONTAINER.search(event.cgroup) is None
    # docker's and podman's cgroups have an id, which the probe knows the name of.
    return line.container == whose.container or _is_in(event.cgroup, whose.container)


def _is_in(group: str, container: str) -> bool:
    """Whether a cgroup is that of a container or below it; docker's are named by the whole id."""
    name = re.escape(container)
    lxc, docker = rf"/(?:lxc\.payload[./]|lxc/){name}(?:/|$)", rf"/(?:docker[-/]|libpod-){name}"
    return re.search(f"{lxc}|{docker}", group) is not None


def _oom_sentence(
    line: KernelLine, event: KernelEvent, whose: Whose, limit_bytes: int | None
) -> str:
    where = f"container {whose.container}" if whose.container else "the host"
    victim = f"victim {event.name or 'unknown'}"
    if line.container_pid is not None:
        victim += f" (PID inside {line.container_pid})"
    elif event.pid is not None:
        victim += f" (PID {event.pid} on the host)"
    constraint = _CONSTRAINT.search(line.line)
    if constraint is None or constraint["constraint"] != "CONSTRAINT_MEMCG":
        return f"the host ran out of memory; {victim} in {where}"
    group = _OOM_GROUP.search(line.line)
    if group is None or not _is_its_own(group["group"], line, whose):
        where = f"the group {group['group']}" if group else "a group"
    limit = f" of {size(limit_bytes)}" if limit_bytes is not None else ""
    return f"{where} reached its memory limit{limit}; {victim}"


def _is_its_own(group: str, line: KernelLine, whose: Whose) -> bool:
    """Whether the group that reached its limit is the run's container or in it."""
    if whose.container is None:
        return False
    named = line.container == whose.container and _ANY_CONTAINER.search(group) is not None
    return named or _is_in(group, whose.container)


def _by_count(whose: Whose, record: ExitRecord) -> KernelEvent:
    """From the cgroup's own count, where the kernel's log could not be read."""
    where = f"container {whose.container}" if whose.container else "its group"
    limit = record.memory_limit_bytes
    limited = f" of {size(limit)}" if limit is not None else ""
    count = record.oom_kills or 0
    many = "a process" if count == 1 else f"{count} processes"
    return KernelEvent(
        kind=KernelEventKind.OOM_KILL,
        text=f"{where} reached its memory limit{limited}; the kernel ended {many} in it",
        at=record.ended_at,
    )


def size(number: int) -> str:
    """Bytes in the largest unit that leaves a number of 1 or more."""
    for unit, name in _UNITS:
        if number >= unit:
            return f"{number / unit:.4g} {name}"
    return f"{number} bytes"


def _card(address: str) -> str:
    """Domain, bus and device of a PCI address in one form: the kernel's and NVML's differ."""
    parts = re.split(r"[:.]", address.lower())
    if len(parts) < 3:
        return address
    return ":".join(f"{int(part, 16):x}" for part in parts[:3] if part)
