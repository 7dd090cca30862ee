"""The lab's containers: real LXC, privileged and not, in both kinds of cgroup."""

from __future__ import annotations

import os
import subprocess

import pytest

from tests.lab.lab import Lab
from tests.lab.test_lab import wait_until

pytestmark = [pytest.mark.lab, pytest.mark.xdist_group("lab")]
both = pytest.mark.parametrize("name", ["200", "201"])


@both
def test_python_and_multiprocessing_work_in_a_clean_environment(lab: Lab, name: str) -> None:
    """The standard PATH has a Python of 3.10 or newer, and /dev/shm carries its locks."""
    program = (
        "import multiprocessing as m, sys; m.Lock(); q = m.Queue(); q.put(1);"
        "print(sys.version_info >= (3, 10), q.get())"
    )
    done = lab[name].run(["python3", "-c", program])
    assert done.stdout == "True 1\n"
    shm = lab[name].run(["df", "--output=target,fstype", "/dev/shm"]).stdout
    assert shm.split()[-2:] == ["/dev/shm", "tmpfs"]


@both
def test_shared_memory_is_the_containers_own(lab: Lab, name: str) -> None:
    """A file in a container's /dev/shm is seen neither by the host nor by its neighbour."""
    lab[name].run(["touch", "/dev/shm/orch-lab-canary"])
    other = "201" if name == "200" else "200"
    assert lab[other].run(["ls", "/dev/shm"]).stdout == ""
    assert "orch-lab-canary" not in lab.host.run(["ls", "/dev/shm"]).stdout


@both
def test_tmux_runs_through_ssh_and_pct(lab: Lab, name: str) -> None:
    """A detached tmux session outlives its ssh connection, and its pane can be read later."""
    pct = f"pct exec {name} -- env HOME=/root LANG=C.UTF-8 tmux"
    made = lab.host.ssh(f"{pct} -u new-session -d -s dflash -x 200 -y 50 'echo up; exec sleep 600'")
    assert made.returncode == 0, made.stderr
    read = f"{pct} capture-pane -t dflash -p"
    assert wait_until(lambda: "up" in lab.host.ssh(read).stdout)


@both
def test_tmux_attaches_through_ssh_and_pct(lab: Lab, name: str) -> None:
    """A terminal client attaches through `ssh -tt` and `pct exec`, shows the pane, detaches."""
    lab[name].run(["tmux", "-u", "new-session", "-d", "-s", "a", "echo marker; exec sleep 600"])
    argv = lab.host.ssh_argv(f"pct exec {name} -- tmux attach -t a")
    with subprocess.Popen(
        [argv[0], "-tt", *argv[1:]],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"TERM": "xterm-256color", "PATH": "/usr/bin:/bin"},
    ) as client:
        assert client.stdin is not None
        assert client.stdout is not None
        seen = b""
        while b"marker" not in seen and (more := os.read(client.stdout.fileno(), 4096)):
            seen += more
        lab[name].run(["tmux", "detach-client", "-s", "a"])
        client.stdin.close()
        assert client.wait(timeout=20) == 0
    assert b"marker" in seen
    assert lab[name].run(["tmux", "ls"]).stdout.startswith("a: 1 windows")


def test_one_container_is_unprivileged(lab: Lab) -> None:
    """Root in 201 is uid 100000 outside and can write where a job writes; in 200 it is root."""
    for name, uid in (("200", "0"), ("201", "100000")):
        lab[name].run(["sh", "-c", "mkdir -p /srv/orch && touch /srv/orch/f /tmp/f /root/f"])
        container = lab[name]
        seen = lab.host.run(["stat", "-c", "%u", f"/proc/{container.init_pid}/root/srv/orch/f"])
        assert seen.stdout.strip() == uid


@pytest.mark.parametrize(("name", "cgroup"), [("200", "/lxc.payload.200"), ("201", "/lxc/201/ns")])
def test_the_host_sees_cgroup_and_inner_pid(lab: Lab, name: str, cgroup: str) -> None:
    """The host's /proc shows a container's process in LXC's or Proxmox's cgroup, with both PIDs."""
    inner = lab[name].run(["sh", "-c", "sleep 600 >/dev/null 2>&1 & echo $!"]).stdout.strip()

    def nspids() -> list[list[str]]:
        script = "cat /proc/[0-9]*/status 2>/dev/null | grep ^NSpid:"
        rows = [line.split()[1:] for line in lab.host.ssh(script).stdout.splitlines()]
        return [row for row in rows if row[-1] == inner and int(row[0]) in lab[name].pids()]

    ((outer, last),) = nspids()
    assert last == inner
    lines = lab.host.ssh(f"cat /proc/{outer}/cgroup").stdout.splitlines()
    assert next(line for line in lines if ":memory:" in line).split(":")[2] == cgroup


def test_a_memory_limit_ends_in_a_real_oom_kill(lab: Lab) -> None:
    """What exceeds the limit dies of SIGKILL, and the kernel log names the container's cgroup."""
    container = lab["200"]
    container.limit_memory(64 << 20)
    line = "cd /opt/jobs && exec python3 -m played eat_memory --mib 4096"
    done = container.run(["sh", "-c", line], check=False)
    assert done.returncode == 137
    assert "using 8 MiB" in done.stdout
    assert "using 4096 MiB" not in done.stdout
    if lab.host.run(["dmesg"], check=False).returncode != 0:
        pytest.skip("this machine does not let root read its kernel log")
    named = f"task_memcg=/{lab.host.cgroup}{container.cgroup_path}"
    assert wait_until(lambda: named in lab.host.run(["dmesg"]).stdout)


def test_a_container_restarts_with_its_files(lab: Lab) -> None:
    """Stop and start are a power cut: processes are gone, files are there."""
    container = lab["201"]
    container.run(["sh", "-c", "echo kept > /srv/kept; sync"])
    container.run(["tmux", "new-session", "-d", "sleep", "600"])
    container.stop()
    container.start()
    assert container.run(["cat", "/srv/kept"]).stdout == "kept\n"
    assert container.run(["tmux", "ls"], check=False).returncode != 0


def test_init_reaps_orphans(lab: Lab) -> None:
    """A process whose parent ended leaves no zombie behind."""
    lab["200"].run(["sh", "-c", "sh -c 'sleep 0.1 & sleep 0.1 &' "])
    count = ["sh", "-c", "grep -l '^State:.Z' /proc/[0-9]*/status 2>/dev/null | wc -l"]
    assert wait_until(lambda: lab["200"].run(count).stdout.strip() == "0")


def test_the_race_is_played_with_its_exit_code(lab: Lab) -> None:
    """The played race prints hundreds of lines, the whole traceback among them, and exits 1."""
    line = "cd /opt/jobs && exec python3 -m played fx_race_crash"
    done = lab["201"].run(["sh", "-c", line], check=False)
    assert done.returncode == 1
    assert len(done.stdout.splitlines()) > 400
    first, *_, last = done.stderr.splitlines()
    assert first == "Exception in thread Thread-3 (run):"
    assert last.startswith("RuntimeError: Detected that you are using FX to symbolically trace")
    assert 'torch/_dynamo/eval_frame.py", line 953, in compile_wrapper' in done.stderr


def test_the_race_that_hangs_lives_on(lab: Lab) -> None:
    """The other form of the race prints the same traceback while its process goes on waiting."""
    lab["200"].run(
        ["sh", "-c", "cd /opt/jobs && python3 -m played fx_race_hang >/tmp/o 2>/tmp/e </dev/null &"]
    )
    read = ["cat", "/tmp/e"]
    assert wait_until(lambda: "at the moment." in lab["200"].run(read, check=False).stdout)
    alive = lab["200"].run(["sh", "-c", "grep -l fx_race_hang /proc/[0-9]*/cmdline"], check=False)
    assert "/proc/" in alive.stdout


@both
def test_a_small_disk_fills_up_and_goes(lab: Lab, name: str) -> None:
    """Root inside can fill the small disk to ENOSPC; after `reset` it is not mounted any more."""
    lab[name].mount_small_disk("/srv/orch", 1 << 20)
    fill = "head -c 700000 /dev/zero > /srv/orch/a && head -c 700000 /dev/zero > /srv/orch/b"
    done = lab[name].run(["sh", "-c", fill], check=False)
    assert done.returncode == 1
    assert "No space left on device" in done.stderr
    lab.reset()
    assert "/srv/orch" not in lab[name].run(["cat", "/proc/mounts"]).stdout


def test_processes_are_found_by_their_command_line(lab: Lab) -> None:
    """`pids` gives the host's PIDs of those processes of one container that run a command."""
    for name in ("200", "201"):
        lab[name].run(["sh", "-c", "sleep 4321 >/dev/null 2>&1 &"])
    (pid,) = lab["201"].pids(running="sleep 4321")
    lab.host.run(["kill", "-9", str(pid)])
    assert wait_until(lambda: not lab["201"].pids(running="sleep 4321"))
    assert len(lab["200"].pids(running="sleep 4321")) == 1


def test_a_frozen_container_stands_still_until_reset(lab: Lab) -> None:
    """Freezing stops every process inside without ending it; pct still calls it running."""
    container = lab["201"]
    count = "while :; do echo x >> /srv/beats; sleep 0.02; done"
    container.run(["sh", "-c", f"({count}) >/dev/null 2>&1 </dev/null &"])
    beats = container.root / "srv/beats"
    assert wait_until(lambda: beats.exists() and beats.stat().st_size > 2)
    container.freeze()
    frozen = beats.stat().st_size
    assert lab.host.ssh("pct status 201").stdout == "status: running\n"
    assert beats.stat().st_size == frozen
    container.thaw()
    assert wait_until(lambda: beats.stat().st_size > frozen)
    container.freeze()
    init = container.init_pid
    lab.reset()
    assert container.init_pid == init
    assert container.run(["ls", "/srv"]).stdout == ""
