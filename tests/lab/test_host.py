"""The lab's host: real sshd, stand-ins that behave as the real programs, a cable to cut."""

from __future__ import annotations

import json
import shlex
import socket
import subprocess
from pathlib import Path

import asyncssh
import pytest

from tests.lab.gpus import GpuProcess
from tests.lab.host import BASHRC_FAILS, BASHRC_PRINTS, BASHRC_SLOW
from tests.lab.lab import Lab

pytestmark = [pytest.mark.lab, pytest.mark.xdist_group("lab-itself")]
SAY_ARGV = "import json, sys; print(json.dumps(sys.argv[1:]))"
NASTY = [
    "a b",
    "",
    "it's",
    '"$HOME"',
    "*",
    "$(id)",
    "`id`",
    "\\",
    "new\nline",
    "-n",
    "--",
    "ü~!#;&",
]


def test_arguments_pass_ssh_and_pct_unchanged(lab: Lab) -> None:
    """Arguments quoted once for ssh's shell reach the program in the container as they were."""
    line = shlex.join(["pct", "exec", "200", "--", "python3", "-c", SAY_ARGV, *NASTY])
    done = lab.host.ssh(line)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == NASTY


def test_pct_exec_passes_stdin_exit_code_and_streams(lab: Lab) -> None:
    """`pct exec` is a plain pipe: stdin arrives, stderr stays apart, the exit code comes back."""
    done = lab.host.ssh("pct exec 201 -- sh -c 'cat; echo err >&2; exit 7'", stdin="in\n")
    assert (done.returncode, done.stdout, done.stderr) == (7, "in\n", "err\n")


def test_pct_exec_gives_a_terminal_only_to_a_terminal(lab: Lab) -> None:
    """A program in the container has a terminal exactly when ssh was asked for one."""
    line = "pct exec 200 -- sh -c 'test -t 0 && echo tty || echo pipe'"
    assert lab.host.ssh(line).stdout == "pipe\n"
    argv = lab.host.ssh_argv(line)
    done = subprocess.run(
        [argv[0], "-tt", *argv[1:]],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.stdout.split() == ["tty"]


@pytest.mark.parametrize(
    ("option", "default", "kept"),
    [
        ("", True, True),
        ("", False, False),
        ("--keep-env", False, True),
        ("--keep-env 0", True, False),
    ],
)
def test_pct_exec_keeps_the_environment_as_its_version_does(
    lab: Lab, option: str, default: bool, kept: bool
) -> None:
    """The host's variables reach the container by default or not, and --keep-env overrides it."""
    lab.host.set_keep_env(default)
    line = f"CANARY=1 pct exec 200 {option} -- sh -c 'echo ${{CANARY-none}} ${{SSH_CLIENT-none}}'"
    words = lab.host.ssh(line).stdout.split()
    assert (words[0] == "1", words[1] != "none") == (kept, kept)


def test_pct_speaks_of_a_missing_container_as_the_real_one(lab: Lab) -> None:
    """Every verb on an unknown id prints Proxmox's sentence to stderr and exits 2."""
    message = "Configuration file 'nodes/pve1/lxc/999.conf' does not exist\n"
    for verb in ("exec 999 -- true", "status 999", "push 999 /etc/passwd /tmp/x"):
        done = lab.host.ssh(f"pct {verb}")
        assert (done.returncode, done.stdout, done.stderr) == (2, "", message), verb


def test_pct_status_and_list(lab: Lab) -> None:
    """`status` and `list` tell a running container from a stopped one."""
    lab["201"].stop()
    assert lab.host.ssh("pct status 200; pct status 201").stdout == (
        "status: running\nstatus: stopped\n"
    )
    rows = [line.split() for line in lab.host.ssh("pct list").stdout.splitlines()]
    assert rows == [
        ["VMID", "Status", "Lock", "Name"],
        ["200", "running", "ct200"],
        ["201", "stopped", "ct201"],
    ]
    assert lab.host.ssh("pct exec 201 -- true").returncode != 0


def test_pct_push_copies_with_mode_and_owner(lab: Lab) -> None:
    """`push` writes the host's file into the container with the permissions asked for."""
    done = lab.host.ssh(
        "printf 'a\\0b' > /tmp/f; pct push 201 /tmp/f /srv/f --perms 0640 --user 7 &&"
        " pct exec 201 -- sh -c 'stat -c \"%a %u %s\" /srv/f'"
    )
    assert done.stdout == "640 7 3\n", done.stderr


@pytest.mark.parametrize(
    ("bashrc", "seen"),
    [(BASHRC_PRINTS, "Welcome to pve1!"), (BASHRC_FAILS, "conda.sh"), (BASHRC_SLOW, "0.3 s")],
)
def test_a_noisy_bashrc_is_read_by_every_command(lab: Lab, bashrc: str, seen: str) -> None:
    """What root's .bashrc prints or takes comes before a command's output, as on real hosts."""
    lab.host.set_bashrc(bashrc)
    done = lab.host.ssh("echo here")
    assert seen in done.stdout + done.stderr
    assert done.stdout.endswith("here\n")


def test_the_host_changes_no_file_of_the_machine(lab: Lab) -> None:
    """What a command writes on the host is in the lab's own layer, and goes with it."""
    lab.host.ssh("echo x > /usr/local/bin/orch-lab-canary; echo x > /root/orch-lab-canary")
    assert lab.host.ssh("cat /usr/local/bin/orch-lab-canary").stdout == "x\n"
    lab.host.ssh("rm /usr/local/bin/orch-lab-canary")
    assert not Path("/usr/local/bin/orch-lab-canary").exists()
    assert not Path("/root/orch-lab-canary").exists()


async def test_the_eleventh_channel_of_a_connection_is_refused(lab: Lab) -> None:
    """sshd has its default MaxSessions of 10."""
    host = lab.host
    async with asyncssh.connect(
        host.address,
        port=host.port,
        username="root",
        client_keys=[str(host.identity_file)],
        known_hosts=str(host.known_hosts),
        config=None,
    ) as connection:
        held = [await connection.create_process("cat") for _ in range(10)]
        with pytest.raises(asyncssh.ChannelOpenError, match="open failed"):
            await connection.create_process("true")
        for process in held:
            process.stdin.write_eof()
            await process.wait(check=True)


def test_gpu_stand_ins_play_the_samples(lab: Lab) -> None:
    """Host and containers show the same scripted GPUs; only the host shows processes and PIDs."""
    assert lab.host.ssh("nvidia-smi").returncode == 9
    lab.gpus.set_idle(2)
    pid = lab["200"].init_pid
    lab.gpus.run_on(GpuProcess(gpu=1, pid=pid, used_memory_mib=61234))
    lab.gpus.set(1, utilization_gpu=97)
    query = "nvidia-smi --query-gpu=index,memory.used,utilization.gpu --format=csv,noheader"
    expected = "0, 0 MiB, 0 %\n1, 61234 MiB, 97 %\n"
    assert lab.host.ssh(query).stdout == expected
    for name in ("200", "201"):
        assert lab.host.ssh(f"pct exec {name} -- {query}").stdout == expected
    header = lab.host.ssh("nvidia-smi --query-gpu=index,memory.used,clocks.mem --format=csv").stdout
    assert header.startswith(
        "index, memory.used [MiB], clocks.current.memory [MHz]\n0, 0 MiB, 3201 MHz\n"
    )
    apps = "nvidia-smi --query-compute-apps=pid,used_memory --format=csv,noheader,nounits"
    assert lab.host.ssh(apps).stdout == f"{pid}, 61234\n"
    assert lab.host.ssh(f"pct exec 200 -- {apps}").stdout == ""
    lab.gpus.fail("Unable to determine the device handle for GPU0: Unknown Error", 255)
    assert lab.host.ssh(query).returncode == 255


def test_a_cut_cable_is_silent_and_an_open_connection_survives_it(netns_lab: Lab) -> None:
    """While the cable is out no connection comes about; afterwards the old one goes on."""
    host = netns_lab.host
    with subprocess.Popen(
        host.ssh_argv("pct exec 200 -- cat"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    ) as session:
        assert session.stdin is not None
        assert session.stdout is not None
        session.stdin.write("before\n")
        assert session.stdout.readline() == "before\n"
        host.cut()
        session.stdin.write("during\n")
        with pytest.raises(OSError):  # noqa: PT011 -- a time-out or "no route", both are silence
            socket.create_connection((host.address, host.port), timeout=0.5)
        assert session.poll() is None
        host.restore()
        assert session.stdout.readline() == "during\n"
        session.stdin.close()
        assert session.wait(timeout=20) == 0


def test_containers_run_in_the_namespace_of_a_host_with_a_cable(netns_lab: Lab) -> None:
    """The host with a cable reaches both its containers, and has no other network."""
    host = netns_lab.host
    for name in ("200", "201"):
        assert host.ssh(f"pct exec {name} -- hostname").stdout == f"ct{name}\n"
    links = host.run(["ls", "/sys/class/net"]).stdout.split()
    assert sorted(links) == sorted([f"{host.link}i", "lo", *(n for n in links if n in _DEFAULT)])


_DEFAULT = {"ifb0", "ifb1", "sit0", "tunl0", "ip6tnl0", "gre0", "gretap0", "erspan0", "ip_vti0"}
