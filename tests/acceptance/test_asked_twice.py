"""A run that is asked for twice is launched once."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

from orchestrator.api.client import Client
from orchestrator.api.location import locate
from orchestrator.core.errors import OrchError
from tests.acceptance.conftest import MakeOrch, local_job


def test_of_two_who_ask_at_once_one_gets_the_run(make_orch: MakeOrch, short_folder: Path) -> None:
    """The other is told why, and nothing of a second run is stored."""
    orch = make_orch(local_job(short_folder, "python3 -m played steps --count 0 --pause 0.2"))
    orch("daemon", "start")
    location = locate(orch.folder / "inventory.yaml", orch.env)
    both = Barrier(2)

    def ask(_: int) -> str:
        both.wait(30.0)
        try:
            news = Client(location.socket, timeout_s=60.0).stream("POST", "/v1/run", {})
            return str([*news][-1]["kind"])
        except OrchError as error:
            return str(error)

    with ThreadPoolExecutor(2) as pool:
        got, refused = sorted(pool.map(ask, range(2)), key=len)
    assert got == "stored"
    assert "under way already" in refused or "still runs" in refused
    (run,) = orch.json("ps", "-a")["runs"]
    orch("stop", run["id"])
