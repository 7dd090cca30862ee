"""What happened to a run, told in order by the daemon."""

import getpass
from pathlib import Path
from typing import Any

from orchestrator.api.client import Client
from tests.acceptance.conftest import MakeOrch, Orch, local_job
from tests.acceptance.test_restart import policy
from tests.lab.receiver import Receiver

PHASES = """
import json, os, time
out = open(os.environ["ORCH_RUN_DIR"] + "/metrics.jsonl", "a")
for step, phase in enumerate(["compile", "train", "train"], 1):
    out.write(json.dumps({"t": 4.5 + step, "step": step, "phase": phase}) + "\\n")
out.flush()
time.sleep(600)
"""


def events(orch: Orch, run: str) -> list[dict[str, Any]]:
    """The timeline of a run."""
    client = Client(Path(orch.json("daemon", "status")["socket"]))
    answer = client.get(f"/v1/runs/{run}/timeline")
    assert answer["run"].startswith("dflash-")
    return list(answer["events"])


def texts(found: list[dict[str, Any]], kind: str) -> list[str]:
    """What is said of one kind of event, in order."""
    return [one["text"] for one in found if one["kind"] == kind]


def test_a_restart_is_told_from_the_deploy_to_the_end(
    make_orch: MakeOrch, short_folder: Path, receiver: Receiver
) -> None:
    """Who asked, what was deployed, both attempts, the incident and its alerts, and the end."""
    orch = make_orch(local_job(short_folder, "python3 -m played infra --fail 1", policy()))
    orch("run", "-m", "try it", timeout_s=90)
    receiver.wait_for(2)
    orch.until(lambda: "delivered" in " ".join(texts(events(orch, "@1"), "action")[-1:]))
    found = events(orch, "@1")
    assert [one["at"] for one in found] == sorted(one["at"] for one in found)
    release = orch.json("show", "@1")["release"]
    assert [one["ref"] for one in found if one["kind"] == "deploy"] == [release]
    assert texts(found, "command") == [f"run by {getpass.getuser()}: why try it"]
    assert texts(found, "launch") == ["attempt 1", "attempt 2"]
    assert texts(found, "end")[0].startswith("attempt 1 ended: exit code ")
    assert texts(found, "end")[1:] == ["attempt 2 ended: exit code 0", "finished"]
    assert texts(found, "incident")[0].startswith("rendezvous_or_port: ")
    assert texts(found, "incident")[-1] == "resolved"
    actions = texts(found, "action")
    assert "attempt 2 waits for its time" in actions
    assert "evidence was collected" in actions
    assert "alert firing to ops: delivered" in actions
    assert "alert resolved to ops: delivered" in actions


def test_phases_and_a_persons_word_are_told(make_orch: MakeOrch, short_folder: Path) -> None:
    """Each new phase with the program's own time and step, and who stopped the run."""
    (short_folder / "phases.py").write_text(PHASES)
    orch = make_orch(local_job(short_folder, f"python3 {short_folder}/phases.py"))
    run = orch.json("run", "--detach")["run"]
    orch.until(lambda: len(texts(events(orch, run), "phase")) == 2)
    phases = [one for one in events(orch, run) if one["kind"] == "phase"]
    assert [(one["at"], one["text"], one["ref"]) for one in phases] == [
        (5.5, "compile", "1"),
        (6.5, "train", "2"),
    ]
    orch("stop", run)
    found = events(orch, run)
    assert texts(found, "command")[-1] == f"stop by {getpass.getuser()}"
    assert texts(found, "end")[-1] == "stopped"
    assert "everything of the run was ended" in texts(found, "action")
