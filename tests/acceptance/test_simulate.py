"""`orch simulate`: the whole alarm path, and nobody takes it for a failure."""

from collections.abc import Callable
from pathlib import Path

from tests.acceptance.conftest import MakeOrch, Orch, local_job
from tests.acceptance.test_crash_story import firing
from tests.lab.receiver import Receiver

Story = Callable[..., Orch]


def test_alarm_path_from_a_run_to_the_receiver_and_back(story: Story, receiver: Receiver) -> None:
    """The sample runs in tmux, is recognised, alerted as a simulation, and told to be over."""
    orch = story("python3 -m played steps")
    shown = orch("simulate", "fx_trace_race").stdout
    assert "simulation-1 plays it on" in shown
    assert "recognised: fx_trace_race: SIMULATION, nothing is wrong: torch.compile race" in shown
    assert "firing to ops: delivered" in shown
    assert "resolved to ops: delivered" in shown

    alert = receiver.wait_for(where=firing)[0].json["alerts"][0]
    assert alert["labels"]["alertname"] == "fx_trace_race"
    assert alert["labels"]["job"] == "simulation"
    assert "SIMULATION, nothing is wrong" in alert["annotations"]["summary"]
    assert "using FX to symbolically trace" in alert["annotations"]["traceback"]
    assert receiver.wait_for(where=lambda one: one.json["status"] == "resolved")
    assert orch.json("incidents")["incidents"] == []
    assert [one["state"] for one in orch.json("status")["incidents"]] == ["resolved"]
    assert orch.json("show", "simulation-1")["state"] == "failed"
    assert "there are none yet" in orch("show", "@1", check=102).stderr
    assert orch.json("ps", "--job", "dflash")["runs"] == []
    assert "no runs of dflash yet" in orch("ps", "--job", "dflash").stdout
    assert "There is no job dflsh" in orch("ps", "--job", "dflsh", check=2).stderr

    said = orch.json("simulate", "cuda_oom")
    assert (said["recognised"], said["arrived"]) == (True, True)
    assert said["incident"]["run"] == "simulation-2"


def test_own_rules_can_be_tried_and_unknown_ones_are_named(
    make_orch: MakeOrch, short_folder: Path
) -> None:
    """A rule with a positive sample plays it; a wrong name is answered with all there are."""
    rules = """rules:
  - name: reactor_scram
    pattern: 'reactor \\d+ scrammed'
    role: root
    positive: ["warm\\nreactor 7 scrammed\\n"]
"""
    orch = make_orch(local_job(short_folder, "echo") + rules)
    assert "recognised: reactor_scram: SIMULATION" in orch("simulate", "reactor_scram").stdout
    unknown = orch("simulate", "no_such_thing", check=2).stderr
    assert "cuda_oom" in unknown
    assert "reactor_scram" in unknown
    assert "Which target" in orch("simulate", "cuda_oom", "--target", "x", check=2).stderr


def test_alert_that_does_not_arrive_is_a_failure(make_orch: MakeOrch, short_folder: Path) -> None:
    """With no sink to take the alert, the path is broken: exit 1, and why is said."""
    inventory = local_job(short_folder, "echo")
    orch = make_orch(inventory.partition("alerts:")[0])
    ran = orch("simulate", "cuda_oom", check=1)
    assert "recognised: cuda_oom" in ran.stdout
    assert "no sink was told" in ran.stderr
