"""`wrapper_alert: true`: a bad end is told of although the daemon died, and by one message."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from orchestrator.api.client import Client
from tests.acceptance.conftest import MakeOrch, Orch, lab_job
from tests.lab.lab import Lab
from tests.lab.receiver import Receiver

WITHIN_S = 120.0
"""A relay waits 60 s for a daemon."""

PROGRAM = "sh -c 'while [ ! -e $ORCH_RUN_DIR/end ]; do sleep 0.1; done; echo last words; exit 7'"


@pytest.fixture
def near(request: pytest.FixtureRequest, receiver: Receiver) -> Iterator[Receiver]:
    """The receiver as the target sees it: a container's loopback is its own."""
    if request.node.callspec.params["story"] != "lab":
        yield receiver
        return
    lab: Lab = request.getfixturevalue("lab")
    port = int(receiver.url.rpartition(":")[2].partition("/")[0])
    with Receiver(port=port, network_of=lab["200"].init_pid) as inside:
        inside.secret = receiver.secret
        lab["200"].run(["ip", "link", "set", "lo", "up"])
        yield inside
        lab["200"].run(["ip", "link", "set", "lo", "down"])


def armed(story: Callable[..., Orch]) -> Orch:
    """The story's `orch`, whose webhook sink says `wrapper_alert: true`."""
    orch = story(PROGRAM)
    file = orch.folder / "inventory.yaml"
    signed = "secret_env: ORCH_WEBHOOK_SECRET"
    file.write_text(file.read_text().replace(signed, f"{signed}, wrapper_alert: true"))
    return orch


def run_folder(request: pytest.FixtureRequest, orch: Orch, run: str) -> Path:
    """The run's folder on the target, as this machine reaches it."""
    directory = orch.json("show", run)["directory"]
    if request.node.callspec.params["story"] == "lab":
        lab: Lab = request.getfixturevalue("lab")
        return Path(f"{lab['200'].root}{directory}")
    return Path(directory)


def test_a_bad_end_is_told_of_though_the_daemon_died(
    request: pytest.FixtureRequest,
    story: Callable[..., Orch],
    receiver: Receiver,
    near: Receiver,
) -> None:
    """The relay alerts the webhook, signed; the daemon's own alert has the very same message id."""
    orch = armed(story)
    begun = orch("run", "--detach", "--json")
    run = orch.json("ps")["runs"][0]["id"]
    assert run in begun.stdout
    folder = run_folder(request, orch, run)
    orch.until(lambda: orch.json("show", run)["state"] == "running")
    os.kill(orch.json("daemon", "status")["pid"], signal.SIGKILL)
    (folder / "end").touch()
    (told,) = near.wait_for(1, timeout_s=WITHIN_S)
    body = near.verify(told)
    assert body["wrapper_alert"] is True
    assert body["alerts"][0]["labels"]["run"] == run
    assert "exit code 7" in body["alerts"][0]["annotations"]["summary"]
    assert body["alerts"][0]["annotations"]["evidence"].endswith("last words")

    orch("daemon", "start")
    orch.until(lambda: orch.json("show", run)["ended_at"])
    later = receiver.wait_for(1, where=lambda one: "wrapper_alert" not in one.json)[0]
    assert later.json["alerts"][0]["labels"]["run"] == run
    assert later.headers["webhook-id"] == told.headers["webhook-id"]
    orch.until(lambda: not (folder / "attempt-1" / "unacknowledged").exists())
    timeline = Client(Path(orch.json("daemon", "status")["socket"])).get(f"/v1/runs/{run}/timeline")
    assert "the run itself had alerted" in str(timeline)
    assert len([one for one in near.received if "wrapper_alert" in one.json]) == 1


def test_a_daemon_that_lives_is_the_only_one_who_tells(
    request: pytest.FixtureRequest,
    story: Callable[..., Orch],
    receiver: Receiver,
    near: Receiver,
) -> None:
    """The end is acknowledged as soon as it is stored, and the relay leaves without a word."""
    orch = armed(story)
    run = orch.json("run", "--detach")["run"]
    folder = run_folder(request, orch, run)
    (folder / "end").touch()
    (told,) = receiver.wait_for(1)
    assert "wrapper_alert" not in told.json
    orch.until(lambda: not list((folder / "attempt-1").glob("own_alert*")))
    assert not (folder / "attempt-1" / "unacknowledged").exists()
    assert not [one for one in near.received if "wrapper_alert" in one.json]
    assert len(receiver.received) == 1


@pytest.mark.lab
def test_a_target_without_a_way_to_the_receiver_is_warned_of(
    lab: Lab, make_orch: MakeOrch, receiver: Receiver
) -> None:
    """Preflight names the sink and the address that the container cannot reach; the run goes on."""
    orch = make_orch(lab_job(lab, "echo hi").replace("_SECRET}", "_SECRET, wrapper_alert: true}"))
    said = orch("run").stdout
    place = receiver.url.removeprefix("http://").partition("/")[0]
    assert f"the run cannot alert ops ({place}) itself: " in said, said
