"""What the GPUs said right after a crash of theirs is kept, though nothing is started again."""

import json
from pathlib import Path

import pytest

from tests.acceptance.conftest import MakeOrch, Orch, lab_job
from tests.lab.lab import Lab

pytestmark = [pytest.mark.lab, pytest.mark.xdist_group("lab")]


def kept(orch: Orch, run: str) -> list[Path]:
    """Files of evidence of a run."""
    return list(Path(orch.env["XDG_STATE_HOME"]).glob(f"orch/*/evidence/{run}.*"))


def test_a_gpu_crash_keeps_what_nvidia_smi_says(lab: Lab, make_orch: MakeOrch) -> None:
    """An illegal access is followed by one look at the GPUs; the file is there and whole."""
    lab.gpus.set_idle(2)
    orch = make_orch(lab_job(lab, "python3 -m played gpu_crash"))
    orch("run", check=100)
    run = orch.json("show", "@1")
    assert run["verdict"]["signature"] == "cuda_illegal_access"
    orch.until(lambda: bool(kept(orch, run["id"])))
    (file,) = kept(orch, run["id"])
    orch.until(lambda: file.read_text().endswith("}"))
    found = json.loads(file.read_text())
    assert "Lab Stand-in H200" in found["dump"]["nvidia_smi"]
    assert "illegal memory access" in "\n".join(found["log"])
    assert file.name == f"{run['id']}.1.json"


def test_any_other_crash_asks_nobody(lab: Lab, make_orch: MakeOrch) -> None:
    """A program's own exception says nothing of a GPU, and none is asked."""
    lab.gpus.set_idle(2)
    orch = make_orch(lab_job(lab, "python3 -c 'raise ValueError(1)'"))
    orch("run", check=100)
    run = orch.json("show", "@1")
    orch("daemon", "stop")
    assert (run["verdict"]["signature"], kept(orch, run["id"])) == ("python_error", [])
