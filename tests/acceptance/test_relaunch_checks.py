"""A relaunch asks what a first launch asked: in the back-off somebody may have come."""

import socket
from pathlib import Path

from tests.acceptance.conftest import MakeOrch, local_job
from tests.acceptance.test_crash_story import firing
from tests.lab.receiver import Receiver


def test_a_relaunch_is_refused_where_a_port_was_taken_meanwhile(
    make_orch: MakeOrch, short_folder: Path, receiver: Receiver, free_port: int
) -> None:
    """Nothing of it is started, and the alert says who is in its way."""
    restart = "    restart: {on: [infra], max_attempts: 3, within: 1h, backoff: 1h}\n"
    checks = f"    preflight: {{ports: [{free_port}]}}\n"
    orch = make_orch(
        local_job(short_folder, "python3 -m played infra --fail 9", f"{restart}{checks}")
    )
    run = orch.json("run", "--detach")["run"]
    orch.until(lambda: orch.json("show", run)["state"] == "backoff")
    with socket.create_server(("127.0.0.1", free_port)):
        file = orch.folder / "inventory.yaml"
        file.write_text(file.read_text().replace("backoff: 1h", "backoff: 100ms"))
        orch("wait", run, "--timeout", "60", timeout_s=90, check=100)
    shown = orch.json("show", run)
    assert (shown["state"], shown["attempt"]) == ("failed", 2)
    assert (Path(shown["directory"]) / "attempts").read_text().split() == ["1"]
    refused = receiver.wait_for(2, where=firing)[1].json["alerts"][0]
    assert refused["labels"]["alertname"] == "launch_failed"
    assert str(free_port) in refused["annotations"]["description"]
