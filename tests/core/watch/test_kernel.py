"""Lines of a kernel log joined to a run, on lines as real kernels print them."""

from dataclasses import replace
from typing import Any

import pytest

from orchestrator.core.events import KernelLine
from orchestrator.core.model import ExitRecord, Severity
from orchestrator.core.parse.kernel_log import KernelEventKind
from orchestrator.core.watch.kernel import Whose, kernel_events, size, xid_finding
from orchestrator.core.watch.xid import XIDS, XidClass, xid_class

END = 1_000.0
GIB = 1024**3
HOLDERS: dict[int, dict[str, Any]] = {
    9001: {"run": "dflash-1", "run_dir": "/w/runs/dflash-1.u", "pci": "00000000:01:00.0"},
    9002: {"run": None, "run_dir": None, "pci": "00000000:02:00.0"},
    9003: {"run": "dflash-1", "run_dir": "/w/runs/dflash-1.other", "pci": "00000000:03:00.0"},
}


def whose(container: str | None = "200") -> Whose:
    """The run dflash-1 in a container."""
    return Whose(
        run="dflash-1", directory="/w/runs/dflash-1.u", container=container, holders=HOLDERS
    )


def ended(signal: int | None = 9, **more: int | None) -> ExitRecord:
    """A record of a run that was killed."""
    return ExitRecord(code=None, signal=signal, started_at=1.0, ended_at=END, **more)  # type: ignore[arg-type]


def oom(group: str, *, limit: str = "CONSTRAINT_MEMCG", at: float = END - 1) -> list[KernelLine]:
    """What a kernel says when it ends a process of a cgroup."""
    return [
        KernelLine(line="python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0", at=at),
        KernelLine(line="memory: usage 67108864kB, limit 67108864kB, failcnt 88", at=at),
        KernelLine(
            line=f"oom-kill:constraint={limit},nodemask=(null),cpuset=x,mems_allowed=0,"
            f"oom_memcg={group},task_memcg={group},task=python3,pid=9001,uid=0",
            at=at,
            container_pid=4711,
        ),
        KernelLine(
            line="Memory cgroup out of memory: Killed process 9001 (python3) total-vm:81584kB",
            at=at,
        ),
    ]


@pytest.mark.parametrize("group", ["/lxc.payload.200", "/lxc/200", "/lxc/200/ns", "/h/lxc/200"])
def test_a_bare_kill_is_told_with_container_limit_and_victim(group: str) -> None:
    """Of plain LXC and of Proxmox; the two lines of one kill are one event."""
    (event,) = kernel_events(oom(group), whose(), ended())
    assert event.kind is KernelEventKind.OOM_KILL
    assert event.text == (
        "container 200 reached its memory limit of 64 GiB; victim python3 (PID inside 4711)"
    )


def test_the_whole_host_can_run_out_too() -> None:
    """No limit of the container was reached, and none is claimed."""
    lines = oom("/lxc/200", limit="CONSTRAINT_NONE")
    (event,) = kernel_events(lines, whose(), ended())
    assert event.text == (
        "the host ran out of memory; victim python3 (PID inside 4711) in container 200"
    )


@pytest.mark.parametrize(
    ("group", "container"),
    [("/lxc/2001", "200"), ("/lxc/201", "200"), ("/user.slice", "200"), ("/lxc/200", None)],
)
def test_another_ones_kill_is_not_ours(group: str, container: str | None) -> None:
    """A name that only begins alike, another container, the host, and the other way round."""
    assert kernel_events(oom(group), whose(container), ended()) == ()


def test_a_kill_long_before_the_end_was_survived() -> None:
    """A worker died an hour ago; what ended the run now was somebody else."""
    assert kernel_events(oom("/lxc/200", at=END - 3600), whose(), ended()) == ()


def test_the_containers_own_count_outweighs_a_name() -> None:
    """Another host's container 200: our cgroup counted no kill."""
    assert kernel_events(oom("/lxc/200"), whose(), ended(oom_kills=0)) == ()


def test_without_the_hosts_log_the_count_says_it() -> None:
    """memory.events from inside: no victim is named, but the limit is."""
    record = ended(oom_kills=1, memory_limit_bytes=64 * GIB)
    (event,) = kernel_events([], whose(), record)
    assert event.kind is KernelEventKind.OOM_KILL
    assert event.text == (
        "container 200 reached its memory limit of 64 GiB; the kernel ended a process in it"
    )


def xid(text: str) -> KernelLine:
    """A line of the driver."""
    return KernelLine(line=f"NVRM: Xid {text}", at=END, container_pid=512)


def test_a_lost_card_of_the_run_is_a_finding() -> None:
    """Joined by the PID, told with its class."""
    line = xid("(PCI:0000:01:00): 79, pid=9001, name=python3, GPU has fallen off the bus.")
    found = xid_finding(line, whose())
    assert found is not None
    assert (found.signature, found.ends, found.transient) == ("gpu_fault", None, False)
    assert found.text == (
        "Xid 79 (machine) on 0000:01:00: the card has fallen off the bus; python3 (PID inside 512)"
    )


@pytest.mark.parametrize("number", [13, 31, 43])
def test_a_programs_own_fault_is_never_called_hardware(number: int) -> None:
    """It opens nothing while the run lives, and is evidence of its class at the end."""
    line = xid(f"(PCI:0000:01:00): {number}, pid=9001, name=python3, Ch 00000008")
    assert xid_class(number) is XidClass.APPLICATION
    assert xid_finding(line, whose()) is None
    (event,) = kernel_events([line], whose(), ended(6))
    assert f"Xid {number} (application)" in event.text


@pytest.mark.parametrize(
    ("text", "ours"),
    [
        ("(PCI:0000:01:00): 48, Double Bit ECC Error", True),
        ("(PCI:0000:01:00): 48, pid=77, name=other, Double Bit ECC Error", True),
        ("(PCI:0000:02:00): 48, Double Bit ECC Error", False),
        ("(PCI:0000:03:00): 48, pid=9003, name=python3, Double Bit ECC Error", False),
        ("(PCI:0000:07:00): 119, pid='<unknown>', name=<unknown>, Timeout", False),
    ],
)
def test_a_fault_of_a_card_is_everybodys_who_is_on_it(text: str, ours: bool) -> None:
    """By the card where no PID is ours; a namesake of another state folder is not us."""
    assert (xid_finding(xid(text), whose()) is not None) is ours


def test_the_same_fault_has_the_same_fingerprint_on_every_card() -> None:
    """Address and PID are outside of it; another number's meaning is not."""
    texts = ["(PCI:0000:01:00): 48, DBE", "(PCI:0000:01:00): 48, pid=9001, name=a, DBE"]
    first, second = (xid_finding(xid(text), whose()) for text in texts)
    other = xid_finding(xid("(PCI:0000:01:00): 79, GPU has fallen off the bus."), whose())
    assert first is not None
    assert second is not None
    assert other is not None
    assert first.fingerprint == second.fingerprint != other.fingerprint


def test_the_table_says_something_of_each() -> None:
    """No entry without a meaning."""
    assert all(meaning for _, meaning in XIDS.values())


@pytest.mark.parametrize(
    ("number", "text"), [(512, "512 bytes"), (200 << 20, "200 MiB"), (3 << 29, "1.5 GiB")]
)
def test_sizes_read_well(number: int, text: str) -> None:
    """In the largest unit that leaves a number of 1 or more."""
    assert size(number) == text


def test_a_process_that_held_no_gpu_is_joined_by_what_the_probe_saw() -> None:
    """A worker that dies before it is sampled; a namesake of another state folder is not us."""
    text = "python3[77]: segfault at 0 ip 0f sp 0f error 4 in libtorch_cpu.so[7f+1000]"
    seen = {"run": "dflash-1", "run_dir": "/w/runs/dflash-1.u"}
    ours = KernelLine(line=text, at=END, container="200", container_pid=9, **seen)
    (event,) = kernel_events([ours], whose(), ended(11))
    assert event.kind is KernelEventKind.SEGFAULT
    assert event.text.endswith("in libtorch_cpu.so[7f+1000] (PID inside 9)")
    other = replace(ours, run_dir="/w/runs/dflash-1.other")
    assert kernel_events([other], whose(), ended(11)) == ()
    assert kernel_events([replace(ours, run=None)], whose(), ended(11)) == ()


def test_a_container_of_docker_is_known_by_its_name() -> None:
    """The kernel names its id; the probe knows which name that is."""
    group = f"/system.slice/docker-{'ab' * 32}.scope"
    lines = [replace(one, container="trainer") for one in oom(group)]
    (event,) = kernel_events(lines, whose("trainer"), ended())
    assert event.text.startswith("container trainer reached its memory limit of 64 GiB; victim")
    assert kernel_events(lines, whose("other"), ended()) == ()
    assert kernel_events(oom(group), whose("ab" * 6), ended()) != ()


def test_disk_and_switch_errors_near_the_end_are_evidence() -> None:
    """They are nobody's and everybody's; an hour ago they were survived."""
    texts = [
        "I/O error, dev nvme0n1, sector 2048 op 0x0:(READ)",
        "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 30 LTSSM Fault Up",
    ]
    lines = [KernelLine(line=text, at=END - 2) for text in texts]
    kinds = [event.kind for event in kernel_events(lines, whose(), ended(6))]
    assert kinds == [KernelEventKind.DISK_ERROR, KernelEventKind.NVSWITCH]
    assert kernel_events([replace(one, at=1.0) for one in lines], whose(), ended(6)) == ()
    found = xid_finding(lines[1], whose())
    assert found is not None
    assert (found.title, found.transient) == (
        "SXid 20034: a fatal error of the NVLink switch",
        False,
    )
    assert xid_finding(lines[0], whose()) is None


def test_what_nvidia_says_to_note_is_no_alarm() -> None:
    """A row that is replaced at the next reset: a warning; one that cannot be: critical."""
    noted = xid_finding(xid("(PCI:0000:01:00): 63, Row Remapper: New row"), whose())
    failed = xid_finding(xid("(PCI:0000:01:00): 64, Row Remapper: failure"), whose())
    assert noted is not None
    assert failed is not None
    assert (noted.severity, failed.severity) == (Severity.WARNING, Severity.CRITICAL)
