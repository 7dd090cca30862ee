"""A run that lives and is not well: it stands still, is slow, or its numbers are gone.

One that works in silence is left alone.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.acceptance.conftest import MakeOrch, Orch, lab_job
from tests.lab.lab import Lab
from tests.lab.receiver import Received, Receiver

Story = Callable[..., Orch]
WATCH = "    watch: {output_within: 3s}\n"


def firing(request: Received) -> bool:
    """Whether a webhook says that something is wrong."""
    return bool(request.json["status"] == "firing")


def test_a_deadlock_is_alerted_with_its_evidence(story: Story, receiver: Receiver) -> None:
    """Silent and idle: critical, while the run lives; its processes are kept as they stood."""
    orch = story("python3 -m played deadlock", WATCH)
    run = orch.json("run", "--detach")["run"]
    alert = receiver.wait_for(where=firing, timeout_s=45)[0].json["alerts"][0]
    assert (alert["labels"]["alertname"], alert["labels"]["severity"]) == ("hang", "critical")
    assert orch.json("show", run)["state"] == "running"
    (incident,) = orch.json("incidents")["incidents"]
    assert "CPU cores used" in incident["finding"]["text"]
    assert "Next" in orch("explain", run).stdout
    (file,) = Path(orch.env["XDG_STATE_HOME"]).glob(f"orch/*/evidence/{run}.1.hang.json")
    kept = json.loads(file.read_text())
    (program,) = (one for one in kept["stacks"]["processes"] if "played deadlock" in one["command"])
    assert program["threads"][0]["tid"] == program["pid"]
    assert "wait_for_the_other" in program["stacks"]
    orch("stop", run)


@pytest.fixture
def forbidden(lab: Lab) -> Iterator[None]:
    """Container 200 lets no program look at another: its py-spy can only complain."""
    script = lab["200"].root / "usr/local/bin/py-spy"
    script.write_text("#!/bin/sh\necho 'Error: Permission denied (os error 13)' >&2\nexit 1\n")
    script.chmod(0o755)
    yield
    script.unlink()


@pytest.mark.lab
def test_where_the_container_forbids_it_the_host_tells_the_stacks(
    lab: Lab, make_orch: MakeOrch, receiver: Receiver, forbidden: None
) -> None:
    """py-spy is sent to the host and looks into the container's namespaces from there."""
    orch = make_orch(lab_job(lab, "python3 -m played deadlock", WATCH))
    run = orch.json("run", "--detach")["run"]
    receiver.wait_for(where=firing, timeout_s=60)
    (file,) = Path(orch.env["XDG_STATE_HOME"]).glob(f"orch/*/evidence/{run}.1.hang.json")
    kept = json.loads(file.read_text())["stacks"]
    complaints = [one.get("complaint", "") for one in kept["processes"]]
    assert any("Permission denied" in text for text in complaints)
    told = [one for one in kept["host"]["processes"] if one.get("stacks")]
    assert any("wait_for_the_other" in one["stacks"] for one in told)
    inside = {one["pid"] for one in kept["processes"]}
    assert {one["container_pid"] for one in told} <= inside
    orch("stop", run)


def test_work_without_a_word_is_no_hang(story: Story, receiver: Receiver) -> None:
    """Four times as long silent as allowed, but busy: it finishes, and nobody was called."""
    orch = story("python3 -m played busy_and_silent --seconds 12", WATCH)
    orch("run", check=0)
    assert not [one for one in receiver.received if firing(one)]
    assert orch.json("incidents", "--all")["incidents"] == []


def test_a_rule_that_does_not_hold_is_alerted(story: Story, receiver: Receiver) -> None:
    """`step>=5: loss<3` while the loss is above: told with the number, and the run goes on."""
    watch = "    watch: {expect: ['step>=5: loss<3']}\n"
    orch = story("python3 -m played steps --count 0 --pause 0.2", watch)
    run = orch.json("run", "--detach")["run"]
    alert = receiver.wait_for(where=firing, timeout_s=45)[0].json["alerts"][0]
    assert alert["labels"]["alertname"] == "expectation_failed"
    (incident,) = orch.json("incidents")["incidents"]
    assert incident["finding"]["text"].startswith("step>=5: loss<3: loss is ")
    assert orch.json("show", run)["state"] == "running"
    orch("stop", run)


def test_a_run_that_is_not_well_is_told_while_it_lives(story: Story, receiver: Receiver) -> None:
    """A loss that is null in training, half the speed for good, compiled code that was given up."""
    orch = story("python3 -m played ailing")
    run = orch.json("run", "--detach")["run"]
    wanted = {"nan_loss": "critical", "throughput_drop": "warning", "silent_eager": "warning"}

    def told() -> dict[str, str]:
        incidents = orch.json("incidents")["incidents"]
        return {one["signature"]: one["severity"] for one in incidents}

    orch.until(lambda: told() == wanted, timeout_s=45.0)
    alerts = receiver.wait_for(3, where=firing, timeout_s=45)
    names = {one.json["alerts"][0]["labels"]["alertname"] for one in alerts}
    assert names == wanted.keys()
    assert orch.json("show", run)["state"] == "running"
    orch("stop", run)


RULES = """rules:
  - {name: slow, pattern: 'loss (?P<value>[0-9.]+)', threshold: {op: gteq, value: 0, points: 3}}
  - {name: validation, pattern: '^validation', start_within: 2s}
"""


def test_what_a_rule_expects_of_the_log_is_alerted(story: Story, receiver: Receiver) -> None:
    """A number that is bad three times in a row, and a line that does not come."""
    orch = story("python3 -m played steps --count 0 --pause 0.2", RULES)
    run = orch.json("run", "--detach")["run"]

    def texts() -> list[str]:
        return sorted(one["finding"]["text"] for one in orch.json("incidents")["incidents"])

    slow, validation = orch.until(lambda: len(texts()) == 2 and texts(), timeout_s=45.0)
    assert slow.startswith("slow: value is ")
    assert validation == "validation: no line within 2 s of the start"
    alerts = receiver.wait_for(2, where=firing, timeout_s=45)
    labels = {one.json["alerts"][0]["labels"]["alertname"] for one in alerts}
    assert labels == {"expectation_failed"}
    assert orch.json("show", run)["state"] == "running"
    orch("stop", run)
