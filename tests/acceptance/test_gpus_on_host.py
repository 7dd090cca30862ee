"""Whose memory it is: GPUs as the host tells them, joined to containers, runs and leftovers."""

from typing import Any

import pytest

from tests.acceptance.conftest import MakeOrch, Orch, lab_job
from tests.lab.gpus import GpuProcess
from tests.lab.lab import Lab

pytestmark = pytest.mark.lab
MIB = 1024 * 1024


def target(orch: Orch, name: str = "ct200") -> dict[str, Any]:
    """A target as `orch top` has it."""
    found: dict[str, Any] = next(one for one in orch.json("top")["targets"] if one["name"] == name)
    return found


def holders(orch: Orch) -> dict[int, dict[str, Any]]:
    """Processes on GPU 0 of container 200's target, by PID of the host."""
    gpus = target(orch)["gpus"]
    return {one["pid"]: one for one in gpus[0]["processes"]} if gpus else {}


def leave_program(lab: Lab, orch: Orch) -> int:
    """Leaves a program behind in container 201, and says its PID on the host."""
    code = "import time; time.sleep(600)  # forgotten"
    lab["201"].run(["sh", "-c", f"exec setsid -f python3 -c '{code}' </dev/null >/dev/null 2>&1"])
    pids: set[int] = orch.until(lambda: lab["201"].pids(running="600)  # forgotten"))
    return pids.pop()


@pytest.mark.parametrize("source", ["nvidia-smi", "nvml"])
def test_memory_is_told_by_run_and_by_leftover(lab: Lab, make_orch: MakeOrch, source: str) -> None:
    """A run's process and one that container 201 forgot are told apart, with PIDs inside."""
    lab.gpus.set_idle(2)
    if source == "nvml":
        lab.drive()
    orch = make_orch(lab_job(lab, "python3 -m played steps --count 0"))
    run = orch.json("run", "--detach")["run"]
    of_run = orch.until(lambda: lab["200"].pids(running="-m played steps")).pop()
    forgotten = leave_program(lab, orch)
    lab.gpus.run_on(
        GpuProcess(gpu=0, pid=of_run, used_memory_mib=70_000),
        GpuProcess(gpu=0, pid=forgotten, used_memory_mib=9_000),
        GpuProcess(gpu=0, pid=2**22 - 1, used_memory_mib=12),
    )
    found = orch.until(lambda: len(holders(orch)) == 3 and holders(orch))
    mine = found[of_run]
    assert (mine["run"], mine["container"], mine["memory_bytes"]) == (run, "200", 70_000 * MIB)
    assert lab["200"].run(["test", "-d", f"/proc/{mine['container_pid']}"]).returncode == 0
    assert mine["container_pid"] != of_run
    assert mine["pane"].startswith("%")
    other = found[forgotten]
    assert (other["run"], other["container"]) == (None, "201")
    assert "forgotten" in other["command"]
    assert found[2**22 - 1] == {"pid": 2**22 - 1, "memory_bytes": 12 * MIB}
    assert target(orch)["gpu_source"] == f"{source} on the host"
    assert "201" in orch("top").stdout
    orch("stop", run)


def test_a_container_whose_host_may_not_be_entered_says_so(lab: Lab, make_orch: MakeOrch) -> None:
    """Where only `pct` may be called, the GPUs are those that the container sees, marked so."""
    lab.gpus.set_idle(1)
    # A forced command that lets nothing but `pct` through, as a careful administrator has it.
    only_pct = lab.host.root / "root" / "only-pct"
    only_pct.write_text(
        '#!/bin/bash\ncase "$SSH_ORIGINAL_COMMAND" in\n'
        '*pct\\ exec*) eval "$SSH_ORIGINAL_COMMAND";;\n*) echo "not allowed" >&2; exit 1;;\nesac\n'
    )
    only_pct.chmod(0o755)
    keys = lab.host.root / "root" / ".ssh" / "authorized_keys"
    plain = keys.read_text()
    keys.write_text(f'command="/root/only-pct" {plain}')
    try:
        orch = make_orch(lab_job(lab, "python3 -m played steps"))
        orch("daemon", "start")
        orch.until(lambda: target(orch)["gpus"])
        assert target(orch)["gpu_source"] == "nvidia-smi in the container"
        assert target(orch)["link"] == "connected"
    finally:
        keys.write_text(plain)


def test_a_process_that_hides_from_its_run_is_still_the_runs(lab: Lab, make_orch: MakeOrch) -> None:
    """Forked off with an empty environment: it is joined through the relay that adopted it."""
    lab.gpus.set_idle(1)
    lab.drive()
    hiding = "(setsid env -i sleep 777 &); sleep 600"
    orch = make_orch(lab_job(lab, f"sh -c '{hiding}'"))
    run = orch.json("run", "--detach")["run"]
    pid = orch.until(lambda: lab["200"].pids(running="sleep 777")).pop()
    lab.gpus.run_on(GpuProcess(gpu=0, pid=pid, used_memory_mib=70_000))
    assert orch.until(lambda: holders(orch).get(pid))["run"] == run
    orch("stop", run)
    assert not lab["200"].pids(running="sleep 777")


def test_a_gpu_that_is_lost_is_shown_and_not_launched_on(lab: Lab, make_orch: MakeOrch) -> None:
    """The others are still shown; a job that wants idle GPUs is told why it is refused."""
    lab.gpus.set_idle(2)
    lab.drive()
    more = "    preflight: {gpus_idle: true}\n"
    orch = make_orch(lab_job(lab, "python3 -m played steps", more))
    orch("daemon", "start")
    orch.until(lambda: len(target(orch)["gpus"]) == 2)
    lab.gpus.set(0, ecc_errors_uncorrected_volatile_total=2)
    lab.gpus.lose(1)
    orch.until(lambda: target(orch)["error"])
    # A sample in between may have read the one card before it failed, and the other one after.
    orch.until(lambda: "GPU 0: 2 uncorrected ECC errors" in orch("top").stdout)
    assert "GPU 1: GPU is lost" in orch("top").stdout
    assert target(orch)["error"] == "GPU 1: GPU is lost"
    assert target(orch)["gpus"][0]["memory_used_bytes"] == 0
    refused = orch("run", check=1)
    assert "GPU 1: GPU is lost" in refused.stderr


def test_an_idle_gpu_of_an_old_driver_is_idle(lab: Lab, make_orch: MakeOrch) -> None:
    """It shows the driver's own 615 MiB as used; a program on it is named with its container."""
    lab.gpus.set_idle(1)
    lab.drive(470)
    more = "    preflight: {gpus_idle: true}\n"
    orch = make_orch(lab_job(lab, "python3 -m played steps", more))
    orch("run")
    forgotten = leave_program(lab, orch)
    lab.gpus.run_on(GpuProcess(gpu=0, pid=forgotten, used_memory_mib=310, inside=True))
    refused = orch("run", check=1)
    assert "GPU 0 has 925 MiB in use by PID" in refused.stderr


def test_who_holds_a_gpu_from_another_container_is_named(lab: Lab, make_orch: MakeOrch) -> None:
    """A launch that is refused and a stop say container and command, which only the host sees."""
    lab.gpus.set_idle(2)
    lab.drive()
    more = "    preflight: {gpus_idle: true}\n"
    orch = make_orch(lab_job(lab, "python3 -m played steps --count 0", more))
    orch("daemon", "start")
    held = GpuProcess(gpu=0, pid=leave_program(lab, orch), used_memory_mib=9_000)
    lab.gpus.run_on(held)
    refused = orch("run", check=1).stderr
    assert "GPU 0 has 9000 MiB in use by PID" in refused
    inside = orch.until(lambda: holders(orch).get(held.pid))["container_pid"]
    assert f"PID {held.pid} ({inside} in container 201) python3 -c import time" in refused
    lab.gpus.run_on()
    run = orch.json("run", "--detach")["run"]
    orch.until(lambda: lab["200"].pids(running="-m played steps"))
    lab.gpus.run_on(held)
    said = orch("stop", run).stdout
    assert "held by gpu 0 pid" in said
    assert "201 python3 -c import time" in said


def test_stop_tells_of_the_gpus_that_were_the_runs(lab: Lab, make_orch: MakeOrch) -> None:
    """Another container goes on with the next GPU: that is neither waited for nor claimed."""
    lab.gpus.set_idle(3)
    orch = make_orch(lab_job(lab, "python3 -m played steps --count 0"))
    run = orch.json("run", "--detach")["run"]
    pid = orch.until(lambda: lab["200"].pids(running="-m played steps")).pop()
    other = GpuProcess(gpu=2, pid=leave_program(lab, orch), used_memory_mib=9_000)
    mine = [GpuProcess(gpu=gpu, pid=pid, used_memory_mib=70_000) for gpu in (0, 1)]
    lab.gpus.run_on(*mine, other)
    orch.until(lambda: holders(orch).get(pid, {}).get("run") == run)
    with orch.start("stop", run) as stopping:
        orch.until(lambda: not lab["200"].pids(running="-m played steps"))
        lab.gpus.run_on(other)
        said, _ = stopping.communicate(timeout=60)
    assert "GPUs 0-1 free after" in said
    assert "held" not in said


def test_a_rank_that_comes_late_is_told_while_the_run_goes_on(
    lab: Lab, make_orch: MakeOrch
) -> None:
    """Half a minute of one GPU at rest and two that wait for it, as the host's driver has it."""
    lab.gpus.set_idle(3)
    lab.drive()
    orch = make_orch(lab_job(lab, "python3 -m played steps --count 0"))
    run = orch.json("run", "--detach")["run"]
    pid = orch.until(lambda: lab["200"].pids(running="-m played steps")).pop()
    lab.gpus.run_on(*(GpuProcess(gpu=gpu, pid=pid, used_memory_mib=70_000) for gpu in range(3)))
    for gpu, percent in enumerate((100, 34, 99)):
        lab.gpus.set(gpu, utilization_gpu=percent)
    (incident,) = orch.until(lambda: orch.json("incidents")["incidents"], timeout_s=90.0)
    assert (incident["signature"], incident["severity"]) == ("straggler", "warning")
    assert incident["finding"]["text"].startswith("GPU 1 is busy 34 % of the time")
    assert orch.json("show", run)["state"] == "running"
    orch("stop", run)


def test_a_driver_that_hangs_holds_up_no_stop(lab: Lab, make_orch: MakeOrch) -> None:
    """The run is ended; of its GPUs nothing is claimed, and `top` says why there is nothing."""
    lab.gpus.set_idle(1)
    lab.drive()
    orch = make_orch(lab_job(lab, "python3 -m played steps --count 0"))
    run = orch.json("run", "--detach")["run"]
    orch.until(lambda: target(orch)["gpus"])
    lab.gpus.hang()
    said = orch("stop", run, timeout_s=100).stdout
    assert "stopped, 1 process ended" in said
    assert "free" not in said
    orch.until(lambda: "has not answered" in (target(orch)["error"] or ""))
    lab.gpus.write()
    orch.until(lambda: target(orch)["error"] is None)
