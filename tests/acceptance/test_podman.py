"""A real podman container as a target, entered by `podman exec`, with processes of its own."""

import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.conftest import ALERTS, PLAYED, MakeOrch
from tests.lab.receiver import Receiver

LIMITS = ("--ulimit", "nofile=1024:1024", "--ulimit", "nproc=10000:10000")
"""podman asks for more than a machine in a container or a small VM may give."""


@pytest.fixture
def container() -> Iterator[str]:
    """A podman container on an overlay of this machine's own root, so that no image is fetched."""
    if shutil.which("podman") is None or shutil.which("runc") is None or os.geteuid() != 0:
        if os.environ.get("CI"):
            pytest.fail("podman, runc and root are needed: apt-get install podman runc")
        pytest.skip("needs podman, runc and root: apt-get install podman runc")
    name = f"orch-test-{uuid.uuid4().hex[:12]}"
    podman("run", "-d", "--name", name, "--net=none", *LIMITS, "--rootfs", "/:O", "sleep", "inf")
    yield name
    podman("rm", "-f", "-t", "0", name)


def podman(*words: str) -> str:
    """What podman prints. runc, because crun refuses machines with both kinds of cgroups."""
    done = subprocess.run(
        ["podman", "--runtime", "runc", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"podman {' '.join(words)}: {done.stderr}"
    return done.stdout


def inventory(container: str, command: str) -> str:
    """A job of container `container` on this machine."""
    return f"""
version: 1
hosts:
  here: {{transport: local}}
targets:
  box: {{host: here, runtime: podman, container: {container}, user: root}}
jobs:
  dflash:
    target: box
    package: {PLAYED}
    workdir: /srv/orch-podman/dflash
    command: {command}
{ALERTS}"""


@pytest.mark.lab
def test_deployed_crashed_and_alerted_in_a_real_podman_container(
    make_orch: MakeOrch, container: str, receiver: Receiver
) -> None:
    """Package, tmux session and log live in the container alone; the crash is named and alerted."""
    orch = make_orch(inventory(container, "python3 -m played fx_race_crash --lines 50 --after 10"))
    orch("deploy", timeout_s=120)
    assert not Path("/srv/orch-podman").exists()
    podman("exec", container, "test", "-L", "/srv/orch-podman/dflash/current")
    first = orch("run", check=100, timeout_s=120)
    assert "fx_trace_race" in first.stdout
    alert = receiver.wait_for(where=lambda one: bool(one.json["status"] == "firing"))[0]
    assert alert.json["alerts"][0]["labels"]["alertname"] == "fx_trace_race"
    shown = orch.json("show", "@1")
    assert (shown["state"], shown["exit_code"]) == ("failed", 1)


@pytest.mark.lab
def test_a_podman_container_that_stops_takes_its_run_along(
    make_orch: MakeOrch, container: str
) -> None:
    """`orch exec` answers from inside; after a restart of the container its run is lost."""
    orch = make_orch(inventory(container, "python3 -m played steps --count 0"))
    orch("deploy", timeout_s=120)
    run = orch.json("run", "--detach")["run"]
    orch.until(lambda: orch.json("show", run)["state"] == "running")
    inside = orch("exec", "box", "--", "cat", "/proc/1/comm").stdout
    assert inside.strip() == "sleep"
    orch.until(lambda: "step 5 " in orch("logs", run).stdout)
    podman("restart", "-t", "0", container)
    orch.until(lambda: orch.json("show", run)["state"] == "lost", timeout_s=60)
    assert "its container was stopped and started under it" in orch("explain", run).stdout
