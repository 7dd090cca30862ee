"""Which container a PID of the host is in, from the texts that the kernel gives."""

import os

import pytest

from orchestrator.probe.join import container_of, innermost_pid, place_of


@pytest.mark.parametrize(
    ("cgroup", "container"),
    [
        ("0::/lxc/200/ns/user.slice/user-0.slice/session-1.scope\n", "200"),
        ("0::/lxc/200/ns\n", "200"),
        ("12:memory:/lxc/200\n0::/lxc/200\n", "200"),
        ("0::/lxc.payload.200/init.scope\n", "200"),
        ("5:pids:/lxc.payload.dflash\n0::/lxc.payload.dflash\n", "dflash"),
        ("0::/lxc.payload/old-style\n", "old-style"),
        ("0::/lxc/100/ns/lxc.payload.inner\n", "100"),
        (f"0::/system.slice/docker-{'ab' * 32}.scope\n", "ab" * 32),
        (f"1:cpu:/docker/{'cd' * 32}\n", "cd" * 32),
        (f"0::/machine.slice/libpod-{'ef' * 32}.scope/container\n", "ef" * 32),
        (f"0::/lxc/200/ns/system.slice/docker-{'ab' * 32}.scope\n", "200"),
        ("0::/user.slice/user-1000.slice/session-3.scope\n", None),
        ("0::/\n", None),
        ("0::/lxc.monitor.200\n", None),
        # Outside of the cgroup namespace that we are in: some other host's container 200.
        ("8:memory:/../other/lxc.payload.200\n0::/\n", None),
        ("", None),
    ],
)
def test_the_outermost_container_is_named(cgroup: str, container: str | None):
    """Of cgroup v1 and v2, of Proxmox, plain LXC, docker and podman, and of nests of them."""
    assert container_of(cgroup) == container


@pytest.mark.parametrize(
    ("status", "pid"),
    [
        ("Name:\tpython3\nPid:\t9001\nNSpid:\t9001\t512\n", 512),
        ("NSpid:\t9001\t512\t7\n", 7),
        ("NSpid:\t9001\n", 9001),
        ("Name:\tpython3\nPid:\t9001\n", None),
    ],
)
def test_the_innermost_pid_is_the_last(status: str, pid: int | None):
    """A kernel without PID namespaces says nothing."""
    assert innermost_pid(status) == pid


def test_a_pid_that_is_gone_is_nowhere():
    """It may end between the sample and the question."""
    assert place_of(2**22 + 1).container is None
    assert place_of(os.getpid()).pid in {None, os.getpid()}
