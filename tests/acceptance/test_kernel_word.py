"""The kernel's word on a run: a real OOM kill, and a card that is lost while the run lives."""

import os
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.conftest import MakeOrch, lab_job
from tests.lab.gpus import GpuProcess
from tests.lab.lab import Lab
from tests.lab.receiver import Received, Receiver

pytestmark = pytest.mark.lab
MIB = 1024 * 1024
KERNEL_LOG = Path("/dev/kmsg")


def firing(request: Received) -> bool:
    """Whether a webhook says that something is wrong."""
    return bool(request.json["status"] == "firing")


@pytest.fixture
def only_pct(lab: Lab) -> Iterator[None]:
    """An administrator who lets nothing but `pct exec` through."""
    script = lab.host.root / "root" / "only-pct"
    script.write_text(
        '#!/bin/bash\ncase "$SSH_ORIGINAL_COMMAND" in\n'
        '*pct\\ exec*) eval "$SSH_ORIGINAL_COMMAND";;\n*) echo "not allowed" >&2; exit 1;;\nesac\n'
    )
    script.chmod(0o755)
    keys = lab.host.root / "root" / ".ssh" / "authorized_keys"
    plain = keys.read_text()
    keys.write_text(f'command="/root/only-pct" {plain}')
    yield
    keys.write_text(plain)


@pytest.fixture
def cgroups_inside(lab: Lab) -> Iterator[None]:
    """Container 200 has its cgroups mounted, as an init like systemd leaves them."""
    mounting = (
        "mount -t tmpfs tmpfs /sys/fs/cgroup && mkdir /sys/fs/cgroup/memory"
        " && mount -t cgroup -o memory cgroup /sys/fs/cgroup/memory"
    )
    lab["200"].run(["sh", "-c", mounting])
    yield
    lab["200"].run(["sh", "-c", "umount /sys/fs/cgroup/memory && umount /sys/fs/cgroup"])


def test_a_bare_kill_is_explained_by_the_hosts_kernel(
    lab: Lab, make_orch: MakeOrch, receiver: Receiver
) -> None:
    """Nothing is printed but `Killed`; the alert names container, limit and victim."""
    lab["200"].limit_memory(96 * MIB)
    # As long as a look at the processes takes to come round: of one that is gone the host knows
    # no PID inside.
    orch = make_orch(lab_job(lab, "python3 -m played eat_memory --after 4"))
    told = r"container 200 reached its memory limit of 96 MiB; victim python3 \(PID inside (\d+)\)"

    def explained() -> bool:
        orch("run", check=100)
        verdict = orch.json("show", "@1")["verdict"]
        assert (verdict["signature"], verdict["verdict"]) == ("host_oom", "killed")
        return re.search(told, "\n".join(verdict["evidence"])) is not None

    # A machine that is slow may not have met the program in time.
    orch.until(explained, timeout_s=60.0)
    assert re.search(told, orch.json("show", "@1")["verdict"]["cause"])
    assert re.search(told, orch("show", "@1").stdout)
    alert = receiver.wait_for(where=firing)[0].json["alerts"][0]
    assert "container 200 reached its memory limit of 96 MiB" in alert["annotations"]["evidence"]
    with tarfile.open(orch.folder / orch.json("bundle", "@1")["path"]) as archive:
        (name,) = (one for one in archive.getnames() if one.endswith("/kernel.txt"))
        kernel = archive.extractfile(name)
        assert kernel is not None
        assert "oom-kill:constraint=CONSTRAINT_MEMCG" in kernel.read().decode()


def test_a_bare_kill_is_explained_from_inside_where_the_host_may_not_be_entered(
    lab: Lab, make_orch: MakeOrch, only_pct: None, cgroups_inside: None
) -> None:
    """The relay reads what its own cgroup counted."""
    lab["200"].limit_memory(96 * MIB)
    orch = make_orch(lab_job(lab, "python3 -m played eat_memory"))
    orch("run", check=100)
    verdict = orch.json("show", "@1")["verdict"]
    assert verdict["signature"] == "host_oom"
    evidence = "\n".join(verdict["evidence"])
    assert "container 200 reached its memory limit of 96 MiB; the kernel ended a" in evidence


def test_a_kill_by_hand_is_not_called_an_oom(lab: Lab, make_orch: MakeOrch) -> None:
    """The same signal 9 with no word of the kernel is a guess, and says so."""
    orch = make_orch(lab_job(lab, "python3 -m played sigkill_self"))
    orch("run", check=100)
    verdict = orch.json("show", "@1")["verdict"]
    assert verdict["certainty"] != "certain", verdict
    assert not any("memory limit of" in line for line in verdict["evidence"])


@pytest.mark.skipif(not os.access(KERNEL_LOG, os.W_OK), reason="/dev/kmsg cannot be written here")
def test_a_lost_card_opens_an_incident_while_the_run_lives(
    lab: Lab, make_orch: MakeOrch, receiver: Receiver
) -> None:
    """The program only waits for its card for ever: the driver's Xid is what tells."""
    lab.gpus.set_idle(1)
    orch = make_orch(lab_job(lab, "python3 -m played steps --count 0"))
    run = orch.json("run", "--detach")["run"]
    pid = orch.until(lambda: lab["200"].pids(running="-m played steps")).pop()
    lab.gpus.run_on(GpuProcess(gpu=0, pid=pid, used_memory_mib=70_000))

    def is_seen() -> bool:
        (target,) = (one for one in orch.json("top")["targets"] if one["name"] == "ct200")
        return any(one.get("run") == run for gpu in target["gpus"] for one in gpu["processes"])

    orch.until(is_seen)
    KERNEL_LOG.write_text(
        f"NVRM: Xid (PCI:0000:01:00): 79, pid={pid}, name=python3, GPU has fallen off the bus.\n"
    )
    alert = receiver.wait_for(where=firing)[0].json["alerts"][0]
    assert alert["labels"]["alertname"] == "gpu_fault"
    assert orch.json("show", run)["state"] == "running"
    (incident,) = orch.json("incidents")["incidents"]
    assert "Xid 79 (machine) on 0000:01:00" in incident["finding"]["text"]
    orch("stop", run)


def test_a_bare_segfault_is_told_with_the_library_it_was_in(lab: Lab, make_orch: MakeOrch) -> None:
    """The program prints nothing, holds no GPU, and is gone before anybody can look it up."""
    crash = 'python3 -c "import ctypes, time; time.sleep(6); ctypes.string_at(0)"'
    orch = make_orch(lab_job(lab, f"sh -c '{crash}; exit $?'"))

    def crashed() -> list[str]:
        orch("run", check=100)
        evidence: list[str] = orch.json("show", "@1")["verdict"]["evidence"]
        return [line for line in evidence if line.startswith("kernel: ")]

    # A machine that is slow may not have met the program in time.
    said = orch.until(crashed, timeout_s=60.0)
    assert len(said) == 1
    assert re.search(r"segfault at 0 .* in lib.*\(PID inside \d+\)", said[0])


def test_an_xid_is_told_by_the_driver_where_the_host_may_not_be_entered(
    lab: Lab, make_orch: MakeOrch, only_pct: None
) -> None:
    """NVML inside tells its number; a program's own fault is evidence, and no card's incident."""
    lab.gpus.set_idle(1)
    lab.drive()
    wait = "while [ ! -e /srv/go ]; do sleep 0.1; done; kill -SEGV $$"
    orch = make_orch(lab_job(lab, f"sh -c '{wait}'"))
    run = orch.json("run", "--detach")["run"]
    orch.until(lambda: orch.json("top")["targets"][0]["gpu_source"] == "nvml in the container")
    lab.gpus.xid(0, 31)
    orch.until(lambda: "GPU 0: Xid 31" in orch("top").stdout)
    (lab["200"].root / "srv/go").touch()
    orch("wait", run, "--timeout", "40", check=100)
    verdict = orch.json("show", run)["verdict"]
    assert verdict["signature"] == "segfault"
    assert any("kernel: Xid 31 (application) on GPU 0" in line for line in verdict["evidence"])
