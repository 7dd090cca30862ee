"""A real docker container as a target, entered by `docker exec`, with processes of its own."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.conftest import ALERTS, PLAYED, MakeOrch
from tests.lab.docker import Docker, DockerUnavailableError
from tests.lab.receiver import Receiver

pytestmark = [pytest.mark.lab, pytest.mark.xdist_group("docker")]


@pytest.fixture(scope="module")
def docker() -> Iterator[Docker]:
    """A dockerd that answers."""
    try:
        server = Docker.start()
    except DockerUnavailableError as error:
        if os.environ.get("CI"):
            pytest.fail(str(error))
        pytest.skip(str(error))
    yield server
    server.stop()


@pytest.fixture
def container(docker: Docker) -> str:
    """A container."""
    return docker.container()


def inventory(container: str, command: str) -> str:
    """A job of container `container` on this machine."""
    return f"""
version: 1
hosts:
  here: {{transport: local}}
targets:
  box: {{host: here, runtime: docker, container: {container}, user: root}}
jobs:
  dflash:
    target: box
    package: {PLAYED}
    workdir: /srv/orch-docker/dflash
    command: {command}
{ALERTS}"""


def test_deployed_crashed_and_alerted_in_a_real_docker_container(
    docker: Docker, make_orch: MakeOrch, container: str, receiver: Receiver
) -> None:
    """Package, tmux session and log live in the container alone; the crash is named and alerted."""
    orch = make_orch(inventory(container, "python3 -m played fx_race_crash --lines 50 --after 10"))
    orch("deploy", timeout_s=120)
    assert not Path("/srv/orch-docker").exists()
    docker.call("exec", container, "test", "-L", "/srv/orch-docker/dflash/current")
    first = orch("run", check=100, timeout_s=120)
    assert "fx_trace_race" in first.stdout
    alert = receiver.wait_for(where=lambda one: bool(one.json["status"] == "firing"))[0]
    assert alert.json["alerts"][0]["labels"]["alertname"] == "fx_trace_race"
    shown = orch.json("show", "@1")
    assert (shown["state"], shown["exit_code"]) == ("failed", 1)


def test_a_run_in_a_docker_container_is_followed_and_stopped(
    make_orch: MakeOrch, container: str
) -> None:
    """`orch exec` answers from inside, `logs` has the lines, `stop` leaves nobody behind."""
    orch = make_orch(inventory(container, "python3 -m played steps --count 0"))
    orch("deploy", timeout_s=120)
    run = orch.json("run", "--detach")["run"]
    assert orch("exec", "box", "--", "cat", "/proc/1/comm").stdout.strip() == "sleep"
    orch.until(lambda: "step 5 " in orch("logs", run).stdout)
    stopped = orch.json("stop", run)
    assert (stopped["run"]["state"], stopped["remaining"]) == ("stopped", [])
    left = orch("exec", "box", "--", "sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '").stdout
    assert "played" not in left


def test_a_docker_container_that_is_restarted_takes_its_run_along(
    docker: Docker, make_orch: MakeOrch, container: str
) -> None:
    """The run is lost, and it is said why."""
    orch = make_orch(inventory(container, "python3 -m played steps --count 0"))
    orch("deploy", timeout_s=120)
    run = orch.json("run", "--detach")["run"]
    orch.until(lambda: "step 5 " in orch("logs", run).stdout)
    docker.call("restart", "-t", "0", container)
    orch.until(lambda: orch.json("show", run)["state"] == "lost", timeout_s=60)
    assert "its container was stopped and started under it" in orch("explain", run).stdout
