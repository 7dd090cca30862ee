"""Which container a PID of the host is in, from the texts that the kernel gives."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.probe import procfs
from orchestrator.probe.census import NOBODY, Census
from orchestrator.probe.engines import name_in, name_of
from orchestrator.probe.join import container_of, innermost_pid, place_of, run_of
from tests.probe.driver import eventually


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
def test_the_outermost_container_is_named(cgroup: str, container: str | None) -> None:
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
def test_the_innermost_pid_is_the_last(status: str, pid: int | None) -> None:
    """A kernel without PID namespaces says nothing."""
    assert innermost_pid(status) == pid


def test_a_pid_that_is_gone_is_nowhere() -> None:
    """It may end between the sample and the question."""
    assert place_of(2**22 + 1).container is None
    assert place_of(os.getpid()).pid in {None, os.getpid()}


def test_docker_and_podman_say_what_a_container_is_called(tmp_path: Path) -> None:
    """By their own files, in the forms of docker 28 and podman 5; an unknown one has no name."""
    docker, podman = tmp_path / "containers", tmp_path / "containers.json"
    (docker / ("ab" * 32)).mkdir(parents=True)
    (docker / ("ab" * 32) / "config.v2.json").write_text(
        json.dumps({"ID": "ab" * 32, "Name": "/trainer", "State": {"Running": True}})
    )
    podman.write_text(json.dumps([{"id": "ef" * 32, "names": ["night"], "image": "1234"}]))
    names = [name_in(one * 32, str(docker), str(podman)) for one in ("ab", "ef", "cd")]
    assert names == ["trainer", "night", None]
    assert name_in("ab" * 32, "/nowhere", "/nowhere") is None
    assert name_of("200") == "200"


def test_a_run_is_known_by_what_its_processes_descend_from(tmp_path: Path) -> None:
    """Even with an empty environment, by the relay above it; others are nobody's."""
    attempt = tmp_path / "runs" / "dflash-7.u9" / "1"
    relay = tmp_path / "probe.pyz"
    relay.write_text("import subprocess\nsubprocess.run(['sleep', '100'], env={})\n")
    argv = [sys.executable, str(relay), "attempt", str(attempt)]
    with subprocess.Popen(argv) as popen:
        child = eventually(lambda: procfs.children(popen.pid), "the child is up")[0][0]
        found = run_of(child)
        os.kill(child, signal.SIGKILL)
        popen.wait(20)
    assert (found.run, found.directory) == ("dflash-7", str(attempt.parent))
    assert run_of(os.getpid()).run is None


def test_who_has_ended_is_remembered_for_a_while() -> None:
    """A line about a process often comes when it is gone."""
    census = Census()
    env = {"ORCH_RUN_ID": "dflash-7", "ORCH_RUN_DIR": "/w/runs/dflash-7.u9"}
    with subprocess.Popen(["sleep", "100"], env=env) as popen:
        assert census.whose(popen.pid)["run"] == "dflash-7"
        census.look()
        popen.kill()
    assert procfs.stat(popen.pid) is None
    assert census.whose(popen.pid)["run_dir"] == "/w/runs/dflash-7.u9"
    assert census.whose(2**22 - 1) == NOBODY
