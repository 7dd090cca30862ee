"""Kernel lines -> events, in the forms in which dmesg and journald print them."""

import pytest

from orchestrator.core.parse.kernel_log import KernelEventKind, read_kernel_line


@pytest.mark.parametrize(
    ("line", "kind", "facts"),
    [
        (
            "[   67.4] NVRM: Xid (PCI:0000:00:06): 31, pid=895, name=python3, channel 0x1e",
            KernelEventKind.XID,
            {"xid": 31, "pid": 895, "name": "python3", "pci": "0000:00:06"},
        ),
        (
            "NVRM: Xid (PCI:0000:00:06): 31, pid=575, name=python3, channel 0x0000000a, intr"
            " 00000000. MMU Fault: ENGINE GRAPHICS GPC1 GPCCLIENT_T1_8 faulted @ 0x830d_2be00000."
            " Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_READ",
            KernelEventKind.XID,
            {"xid": 31, "pid": 575, "name": "python3", "pci": "0000:00:06"},
        ),
        (
            "NVRM: Xid (PCI:0000:41:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off",
            KernelEventKind.XID,
            {"xid": 79, "pid": None},
        ),
        (
            "NVRM: GPU 0000:41:00.0: GPU has fallen off the bus.",
            KernelEventKind.BUS_LOST,
            {"pci": "0000:41:00.0"},
        ),
        (
            "oom-kill:constraint=CONSTRAINT_MEMCG,oom_memcg=/lxc.payload.200,"
            "task_memcg=/lxc.payload.200,task=python3,pid=4242,uid=0",
            KernelEventKind.OOM_KILL,
            {"pid": 4242, "name": "python3", "cgroup": "/lxc.payload.200"},
        ),
        (
            "Memory cgroup out of memory: Killed process 4242 (python3) total-vm:91234567kB",
            KernelEventKind.OOM_KILL,
            {"pid": 4242, "name": "python3"},
        ),
        (
            "python3[4242]: segfault at 0 ip 00007f sp 00007f error 4 in libnccl.so.2",
            KernelEventKind.SEGFAULT,
            {"pid": 4242, "name": "python3"},
        ),
        (
            "traps: python3[4242] general protection fault ip:7f1 sp:7f2 error:0 in libc.so.6",
            KernelEventKind.SEGFAULT,
            {"pid": 4242, "name": "python3"},
        ),
        (
            "traps: pt_main_thread[77] trap invalid opcode ip:7f1 sp:7f2 error:0 in a.so",
            KernelEventKind.SEGFAULT,
            {"pid": 77, "name": "pt_main_thread"},
        ),
        (
            "INFO: task python3:4242 blocked for more than 122 seconds.",
            KernelEventKind.HUNG_TASK,
            {"pid": 4242, "name": "python3"},
        ),
        (
            "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 30 LTSSM Fault Up",
            KernelEventKind.NVSWITCH,
            {"xid": 20034, "pci": "0000:c1:00.0"},
        ),
        (
            "I/O error, dev nvme0n1, sector 2048 op 0x0:(READ) flags 0x80700 phys_seg 1",
            KernelEventKind.DISK_ERROR,
            {"name": "nvme0n1"},
        ),
        (
            "EXT4-fs error (device sda1): ext4_find_entry:1455: inode #2: comm python3: reading",
            KernelEventKind.DISK_ERROR,
            {"name": "sda1", "pid": None},
        ),
        (
            "XFS (dm-0): Metadata corruption detected at xfs_inode_buf_verify+0x14d/0x1c0",
            KernelEventKind.DISK_ERROR,
            {"name": "dm-0"},
        ),
        (
            "nvme nvme1: I/O 12 QID 3 timeout, aborting",
            KernelEventKind.DISK_ERROR,
            {"name": "nvme1"},
        ),
    ],
)
def test_line_is_read(line: str, kind: KernelEventKind, facts: dict[str, object]) -> None:
    """Kind, process, card and cgroup are named as the kernel names them."""
    event = read_kernel_line(line, at=5.0)
    assert event is not None
    assert (event.kind, event.at, event.text) == (kind, 5.0, line)
    assert {key: getattr(event, key) for key in facts} == facts


@pytest.mark.parametrize(
    "line", ["eth0: link up", "NVRM: loading NVIDIA UNIX x86_64 Kernel Module 580.159", ""]
)
def test_other_lines_are_none(line: str) -> None:
    """Nearly every kernel line concerns nobody."""
    assert read_kernel_line(line) is None
