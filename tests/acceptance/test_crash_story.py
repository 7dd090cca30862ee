"""The owner's own story: deploy, run, a thread dies of the FX-tracing race, the alert arrives."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance.conftest import MakeOrch, Orch, local_job
from tests.lab.receiver import Received, Receiver

Story = Callable[..., Orch]
SENTENCE = "Detected that you are using FX to symbolically trace a dynamo-optimized function"


def firing(request: Received) -> bool:
    """Whether a webhook says that something is wrong."""
    return bool(request.json["status"] == "firing")


@pytest.fixture
def nursery() -> None:
    """The owner's own story is told as it is lived: each command is a Python that starts."""


def test_race_is_alerted_explained_and_recognised(story: Story, receiver: Receiver) -> None:
    """The alert is signed and whole, the run exits 100, and the second time says: not a fix."""
    orch = story("python3 -m played fx_race_crash --lines 300 --after 40")
    orch("deploy")
    first = orch("run", "-m", "remove the torch.compile wrapper", check=100)
    assert "fx_trace_race" in first.stdout

    alert = receiver.wait_for(where=firing)[0]
    receiver.verify(alert)
    body = alert.json["alerts"][0]
    assert body["labels"]["alertname"] == "fx_trace_race"
    assert body["labels"]["job"] == "dflash"
    assert SENTENCE in body["annotations"]["traceback"]
    assert "Traceback (most recent call last)" in body["annotations"]["traceback"]
    assert "Thread-" in body["annotations"]["thread"]
    assert "belongs to the process in torch up to 2.13" in body["annotations"]["description"]
    assert not body["annotations"].get("same_as")

    shown = orch.json("show", "@1")
    assert shown["state"] == "failed"
    assert shown["exit_code"] == 1
    assert shown["verdict"]["signature"] == "fx_trace_race"
    explained = orch("explain", "@1").stdout
    assert "Next" in explained
    assert "Why" in explained

    second = orch("run", "-m", "try without the wrapper", check=100)
    assert "same as run 1: not a fix" in second.stdout
    again = receiver.wait_for(2, where=firing)[1].json["alerts"][0]
    assert again["annotations"]["same_as"] == "same as run 1: not a fix"
    assert again["labels"]["run"] == "dflash-2"


def test_dead_thread_of_a_living_job_is_alerted_at_once(story: Story, receiver: Receiver) -> None:
    """The thread dies and the process waits for ever: the alert comes while the run still runs."""
    orch = story("python3 -m played fx_race_hang --lines 100")
    orch("deploy")
    run = orch.json("run", "--detach")["run"]
    alert = receiver.wait_for(where=firing, timeout_s=40)[0].json["alerts"][0]
    assert alert["labels"]["alertname"] == "fx_trace_race"
    assert SENTENCE in alert["annotations"]["traceback"]
    assert orch.json("show", run)["state"] == "running"
    assert [one["signature"] for one in orch.json("incidents")["incidents"]] == ["fx_trace_race"]

    orch("stop", run)
    assert orch.json("show", run)["state"] == "stopped"
    orch("wait", run, check=103)
    assert len([one for one in receiver.received if firing(one)]) == 1


METRICS_GO_ON = """
import json, os, threading, time


def worker():
    raise RuntimeError("worker broke")


out = open(os.environ["ORCH_RUN_DIR"] + "/metrics.jsonl", "a")
threading.Thread(target=worker).start()
for step in range(1, 100_000):
    out.write(json.dumps({"t": time.time(), "step": step, "phase": "train", "loss": 1.0}) + "\\n")
    out.flush()
    time.sleep(0.05)
"""


def test_dead_thread_is_alerted_while_metrics_go_on(
    make_orch: MakeOrch, short_folder: Path, receiver: Receiver
) -> None:
    """Metrics that never pause do not keep back what the log's last lines tell."""
    (short_folder / "goes_on.py").write_text(METRICS_GO_ON)
    orch = make_orch(local_job(short_folder, f"python3 {short_folder}/goes_on.py"))
    run = orch.json("run", "--detach")["run"]
    alert = receiver.wait_for(where=firing, timeout_s=40)[0].json["alerts"][0]
    assert "worker broke" in alert["annotations"]["traceback"]
    assert orch.json("show", run)["state"] == "running"
    orch("stop", run)


def test_replace_does_the_owners_loop_as_one_verb(story: Story) -> None:
    """With a run alive a second one is refused; --replace ends it, and starts the new one."""
    orch = story("python3 -m played steps --count 100000 --pause 0.05")
    first = orch.json("run", "--detach")["run"]
    refused = orch("run", "--detach", check=1)
    assert "--replace" in refused.stderr
    second = orch("run", "--detach", "--replace", "-m", "edited")
    assert "dflash-2" in second.stdout
    assert orch.json("show", first)["state"] == "stopped"
    orch.until(lambda: orch.json("show", "dflash-2")["state"] == "running")
    orch("stop", "dflash-2")


def test_a_run_that_finishes_ends_with_0_and_resolves(story: Story, receiver: Receiver) -> None:
    """A good run exits 0 with a summary, and the job's open incident is told to be over."""
    orch = story("python3 -m played $PLAY", "    env: {PLAY: sigkill_self}\n")
    orch("run", check=100)
    receiver.wait_for(where=firing)
    done = orch("run", "--env", "PLAY=steps", check=0)
    assert "finished" in done.stdout
    assert orch.json("incidents")["incidents"] == []
    shown = orch.json("status")["incidents"]
    assert [(one["run"], one["state"]) for one in shown] == [("dflash-1", "resolved")]
    assert "dflash-1  critical" not in orch("status").stdout
    resolved = receiver.wait_for(where=lambda one: one.json["status"] == "resolved")[0]
    assert resolved.json["alerts"][0]["labels"]["run"] == "dflash-1"
