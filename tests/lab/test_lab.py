"""The lab is whole or gone: nothing of it stays behind, and labs do not disturb each other."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.lab import cgroups, registry
from tests.lab.host import BASHRC_PRINTS
from tests.lab.lab import Lab, LabUnavailableError
from tests.lab.proxy import TcpProxy

pytestmark = [pytest.mark.lab, pytest.mark.xdist_group("lab-itself")]
DEADLINE_S = 20.0


def wait_until(condition: Callable[[], object]) -> bool:
    """Whether CONDITION came true before the deadline."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def traces(record: registry.Record) -> list[str]:
    """What of the lab of RECORD is still to be seen on the machine."""
    left = [str(h.mountpoint / record.cgroup) for h in cgroups.hierarchies()]
    left += [record.folder, str(record.path)]
    if record.link:
        left.append(f"/sys/class/net/{record.link}")
    return [path for path in left if Path(path).exists()]


@pytest.mark.parametrize("netns", [False, True])
def test_nothing_stays_behind(netns: bool, tmp_path: Path) -> None:
    """After `stop` no process, cgroup, file, record, link or listening port of the lab is left."""
    lab = Lab.start(tmp_path, netns=netns)
    host, record = lab.host, lab.record
    lab["200"].run(["tmux", "new-session", "-d", "sleep", "600"])
    host.ssh("setsid sleep 600 >/dev/null 2>&1 </dev/null &")
    pids = cgroups.pids(record.cgroup)
    assert len(pids) >= 9
    assert traces(record)
    lab.stop()
    assert traces(record) == []
    assert [pid for pid in pids if registry.started_at(pid) is not None] == []
    if not netns:
        with socket.socket() as probe:
            assert probe.connect_ex((host.address, host.port)) == errno.ECONNREFUSED


def test_a_lab_whose_owner_was_killed_is_swept(tmp_path: Path) -> None:
    """The next start removes what a killed owner left, and lets a living owner's lab be."""
    script = (
        "import os, pathlib\nfrom tests.lab.lab import Lab\n"
        f"lab = Lab.start(pathlib.Path({str(tmp_path)!r}), containers=('200',))\n"
        "print(lab.id, flush=True)\nos.kill(os.getpid(), 9)\n"
    )
    root = Path(__file__).parents[2]
    with Lab.start(tmp_path, containers=()) as living:
        done = subprocess.run(
            [sys.executable, "-c", script], cwd=root, capture_output=True, text=True, check=False
        )
        assert done.returncode == -signal.SIGKILL, done.stderr
        orphan = done.stdout.strip()
        registry.sweep()
        assert not (registry.REGISTRY / f"{orphan}.json").exists()
        assert not list(tmp_path.glob(f"orch-lab-{orphan}*"))
        assert not cgroups.pids(f"orch-lab-{orphan}")
        assert living.host.ssh("hostname").stdout == "pve1\n"


def test_a_start_that_fails_takes_everything_down(tmp_path: Path) -> None:
    """When a part of the lab cannot start, the error is raised and nothing is left."""
    before = {r.lab_id for r in registry.records()}
    with pytest.raises(RuntimeError, match="did not start"):
        Lab.start(tmp_path, containers=("200", "a-name-longer-than-a-hostname-may-be" * 2))
    mine = [r for r in registry.records() if r.owner_pid == os.getpid()]
    assert {r.lab_id for r in mine} <= before
    assert list(tmp_path.iterdir()) == []


def test_two_labs_have_their_own_container_200(lab: Lab, tmp_path: Path) -> None:
    """Two labs run at once, each with a container 200 that knows nothing of the other."""
    with Lab.start(tmp_path, containers=("200",)) as other:
        lab.host.ssh("pct exec 200 -- sh -c 'echo mine > /srv/whose'")
        other.host.ssh("pct exec 200 -- sh -c 'echo other > /srv/whose'")
        assert lab.host.ssh("pct exec 200 -- cat /srv/whose").stdout == "mine\n"
        assert other.host.ssh("pct exec 200 -- cat /srv/whose").stdout == "other\n"
        assert other.host.ssh("pct exec 201 -- true").returncode == 2


def test_reset_gives_the_lab_back_as_new(lab: Lab) -> None:
    """After `reset` the processes, files, limits, stops and settings of a test are gone."""
    host, container = lab.host, lab["200"]
    lab["201"].run(["tmux", "new-session", "-d", "sleep", "600"])
    container.run(["sh", "-c", "mkdir -p /srv/orch/x && touch /srv/orch/x/y /tmp/z /root/w"])
    container.limit_memory(100 << 20)
    host.set_bashrc(BASHRC_PRINTS)
    lab.gpus.set_idle(4)
    container.stop()
    host.kill_sshd()
    lab.reset()
    assert host.ssh("pct status 200").stdout == "status: running\n"
    seen = container.run(["sh", "-c", "ls -A /srv /tmp /root"]).stdout.split()
    assert seen == ["/root:", ".bashrc", "/srv:", "/tmp:"]
    limit = int((container.cgroup("memory") / "memory.limit_in_bytes").read_text())
    assert limit > 1 << 40
    assert lab["201"].run(["tmux", "ls"], check=False).returncode != 0
    assert host.run(["nvidia-smi"], check=False).returncode == 9


def test_the_inventory_text_names_this_lab(lab: Lab) -> None:
    """The inventory points to the lab's sshd, its key and known_hosts, and each container."""
    text = YAML(typ="safe").load(lab.inventory_yaml())
    host = text["hosts"]["pve1"]
    assert (host["hostname"], host["port"]) == (lab.host.address, lab.host.port)
    assert Path(host["identity_file"]).stat().st_mode & 0o777 == 0o600
    assert Path(host["known_hosts"]).is_file()
    assert text["targets"]["ct200"] == {"host": "pve1", "runtime": "pct", "container": 200}
    assert set(text["targets"]) == {"ct200", "ct201", "pve1-itself"}


def test_the_inventory_can_go_through_a_proxy(lab: Lab) -> None:
    """With `via_port` the inventory names the proxy, and known_hosts trusts the host there."""
    with TcpProxy(lab.host.address, lab.host.port) as proxy:
        text = YAML(typ="safe").load(lab.inventory_yaml(via_port=proxy.port))
        argv = lab.host.ssh_argv("hostname")
        argv[argv.index("-p") + 1] = str(text["hosts"]["pve1"]["port"])
        done = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)
        assert (done.stdout, proxy.accepted) == ("pve1\n", 1), done.stderr


def test_make_lab_prints_an_inventory_and_ends_on_ctrl_c() -> None:
    """`python -m tests.lab` shows a ready inventory, stays, and takes all down on SIGINT."""
    # As a shell's background job has it, and some CI runners.
    ignored = ["sh", "-c", "trap '' INT; exec \"$@\"", "sh"]
    child = subprocess.Popen(
        [*ignored, sys.executable, "-m", "tests.lab"],
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert child.stdout is not None
        shown = ""
        while "takes it down" not in shown and (line := child.stdout.readline()):
            shown += line
        mine = [r for r in registry.records() if r.owner_pid == child.pid]
        child.send_signal(signal.SIGINT)
        rest, _ = child.communicate(timeout=DEADLINE_S)
        code = child.returncode
    finally:
        child.kill()
        child.communicate()
    assert "ct200: {host: pve1, runtime: pct, container: 200}" in shown
    assert (len(mine), code) == (1, 0), rest
    assert wait_until(lambda: traces(mine[0]) == [])


def test_a_missing_program_is_named_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the lab cannot run, the error says what is absent and what to install."""
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(LabUnavailableError, match=r"lxc-attach.*apt-get install lxc"):
        Lab.start()
