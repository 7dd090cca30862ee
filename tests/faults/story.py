"""One run through daemons that die: asked for, failed, restarted, finished; then what must hold.

with Stage(...) as stage:      a folder, an inventory, a receiver
    stage.live(fault)          one daemon, until it is dead or all is done
    stage.check()              nothing lost, nothing twice, nothing stuck
"""

import sqlite3
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from orchestrator.api.client import Client
from orchestrator.api.location import locate
from orchestrator.core.errors import OrchError
from tests.faults.nursery import Daemon, Nursery
from tests.faults.points import Fault
from tests.lab.receiver import Receiver

WITHIN_S = 40.0
JOBS = Path(__file__).parents[1] / "lab" / "jobs"
LOG_NAME = "output.log"


def inventory(folder: Path) -> str:
    """A job on this machine, with nothing to deploy, that fails once and is restarted soon."""
    return f"""
version: 1
hosts:
  here: {{transport: local}}
targets:
  local: {{host: here, python: {sys.executable}}}
jobs:
  dflash:
    target: local
    workdir: {folder}/w
    command: python3 -m played infra --fail 1
    env: {{PYTHONPATH: {JOBS}}}
    restart: {{on: [infra], max_attempts: 3, within: 1h, backoff: 100ms}}
alerts:
  sinks:
    ops: {{type: webhook, url_env: ORCH_WEBHOOK_URL, secret_env: ORCH_WEBHOOK_SECRET}}
"""


class Stage:
    """One inventory with one job, `dflash`, and the daemons that follow each other on it."""

    def __init__(
        self, nursery: Nursery, config: Path, env: Mapping[str, str], receiver: Receiver
    ) -> None:
        self._nursery, self.config, self._env = nursery, config, dict(env)
        self._receiver = receiver
        self.location = locate(config, self._env)
        self.client = Client(self.location.socket, timeout_s=20.0)
        self.daemon: Daemon | None = None
        self.num_asked = 0
        self.refusal = ""

    def live(self, fault: Fault | None) -> bool:
        """One daemon's life with this fault: True where it died of it, False where all is done."""
        self.start(fault)
        deadline = time.monotonic() + WITHIN_S
        while not self.gone():
            runs = self._told()
            if runs == []:
                self.ask()
            elif runs and self._is_done_with(runs[0]):
                return False
            assert time.monotonic() < deadline, (
                f"{fault}: neither dead nor done: {self.runs()} {self.refusal}"
            )
            time.sleep(0.01)
        return True

    def start(self, fault: Fault | None) -> None:
        """A daemon takes over."""
        self.close()
        self.daemon = self._nursery.start(self.config, self._env, fault)

    def gone(self) -> bool:
        """Whether the daemon of now is dead."""
        return self.daemon is None or self.daemon.gone

    def ask(self) -> None:
        """Ask for the run, as `orch run --detach` does."""
        self.num_asked += 1
        try:
            list(self.client.stream("POST", "/v1/run", {}))
        except OrchError as error:
            self.refusal = str(error)  # most often it died of that, which the loop sees

    def ask_to_stop(self) -> None:
        """A person wants the newest run to end."""
        try:
            list(self.client.stream("POST", "/v1/runs/@1/stop", {"grace_s": 1}))
        except OrchError as error:
            self.refusal = str(error)

    def until(self, holds: Callable[[], Any], meanwhile: Callable[[], None] = lambda: None) -> None:
        """Until something holds; what is to be done again and again until then."""
        deadline = time.monotonic() + WITHIN_S
        while not holds():
            assert time.monotonic() < deadline, f"not in time: {self.runs()} {self.refusal}"
            meanwhile()
            time.sleep(0.01)

    def runs(self) -> list[dict[str, Any]]:
        """The runs as the daemon tells them, newest first; none where it does not answer."""
        return self._told() or []

    def _told(self) -> list[dict[str, Any]] | None:
        """The runs; None where it does not answer."""
        try:
            return list(self.client.get("/v1/runs")["runs"])
        except OrchError:
            return None

    def done(self) -> bool:
        """Whether the newest run has ended and every alert was taken."""
        runs = self.runs()
        return bool(runs) and self._is_done_with(runs[0])

    def _is_done_with(self, newest: Mapping[str, Any]) -> bool:
        if newest["state"] not in ("finished", "failed", "stopped", "lost"):
            return False
        if newest["state"] == "stopped" and newest["started_at"] is None:
            self.ask()  # its daemon died before it said that there is a run
            return False
        return not self._left("deliveries") and not self._left("actions")

    def _left(self, table: str) -> int:
        query = f"SELECT count(*) FROM {table} WHERE state = 'pending'"
        with sqlite3.connect(self.location.state_folder / "orch.db", timeout=20) as database:
            (number,) = database.execute(query).fetchone()
        database.close()
        return int(number)

    def check(self) -> None:
        """Finished in two attempts, told twice in order, and every byte kept once."""
        run = self.runs()[0]
        assert (run["state"], run["attempt"]) == ("finished", 2)
        folder = Path(run["directory"])
        assert (folder / "attempts").read_text().split() == ["1", "2"]
        for attempt in (1, 2):
            written = (folder / f"attempt-{attempt}" / LOG_NAME).read_bytes()
            assert self.client.log(run["id"], attempt=attempt).content == written
        seen: dict[str, str] = {}
        for one in self._receiver.received:
            seen.setdefault(one.headers["webhook-id"], one.json["status"])
        assert list(seen.values()) == ["firing", "resolved"]

    def close(self) -> None:
        """End the daemon."""
        if self.daemon is not None:
            self.daemon.end()
        self.daemon = None
