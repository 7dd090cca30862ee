"""A process is ended from the list of GPUs, if it still is the one that was seen there."""

from pathlib import Path
from typing import Any

import pytest

from orchestrator.api.client import Client
from orchestrator.core.errors import ApiError
from tests.acceptance.conftest import MakeOrch, Orch, lab_job
from tests.acceptance.test_gpus_on_host import holders, leave_program
from tests.lab.gpus import GpuProcess
from tests.lab.lab import Lab

pytestmark = pytest.mark.lab


def ask(orch: Orch, **body: Any) -> dict[str, Any]:
    """The route, as the dashboard calls it."""
    client = Client(Path(orch.json("daemon", "status")["socket"]))
    return client.call("POST", "/v1/targets/ct200/end-process", body)


def test_a_forgotten_process_is_ended_as_it_was_seen(lab: Lab, make_orch: MakeOrch) -> None:
    """With another start or command nothing is sent; with its own it ends."""
    lab.gpus.set_idle(1)
    orch = make_orch(lab_job(lab, "python3 -m played steps --count 0"))
    orch("daemon", "start")
    forgotten = leave_program(lab, orch)
    lab.gpus.run_on(GpuProcess(gpu=0, pid=forgotten, used_memory_mib=9_000))
    seen = orch.until(lambda: holders(orch).get(forgotten))
    shown = {name: seen[name] for name in ("pid", "start", "command")}
    for wrong in ({"start": shown["start"] + 1}, {"command": "another"}, {"pid": 1}):
        with pytest.raises(ApiError, match="is not among those that hold a GPU"):
            ask(orch, **{**shown, **wrong})
    with pytest.raises(ApiError, match="are wanted"):
        ask(orch, pid=forgotten)
    assert lab["201"].pids(running="600)  # forgotten") == {forgotten}
    assert ask(orch, **shown, grace_s=5) == {
        "pid": forgotten,
        "command": shown["command"],
        "ended": True,
    }
    assert lab["201"].pids(running="600)  # forgotten") == set()
