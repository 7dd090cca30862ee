"""Several daemons of one fleet in one PostgreSQL: their inventories, and who drives the host."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrator.api.client import Client
from tests.acceptance.conftest import MakeOrch, Orch, local_job
from tests.lab.postgres import Postgres

TAKEN_OVER_WITHIN_S = 15.0
SLACK_S = 10.0
"""Beside the promise: the tests' own machine may be busy."""

STORY = """
import os, signal, sys, threading, time
folder = sys.argv[1]
print("begin", os.environ["ORCH_ATTEMPT"], flush=True)
def die():
    raise ValueError("a thread of the story died")
thread = threading.Thread(target=die); thread.start(); thread.join()
number = 0
while os.path.isdir(folder) and not os.path.exists(folder + "/finish"):
    number += 1
    if os.path.exists(folder + "/stubborn"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print("line", number, "x" * 80, f"half={number / 2}", flush=True)
    time.sleep(0.02)
print("end", flush=True)
"""


def three(
    make_orch: MakeOrch, postgres: Postgres, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> list[Orch]:
    """Three inventories of the same fleet, each with a daemon of its own."""
    monkeypatch.setenv("ORCH_STORE", postgres.database())
    (folder / "story.py").write_text(STORY)
    patterns = r"{step: 'line (?P<value>\d+)', half: 'half=(?P<value>\S+)'}"
    watch = f"    watch: {{metrics: {patterns}}}\n"
    text = local_job(folder, f"python3 {folder}/story.py {folder}", watch)
    return [make_orch(text) for _ in range(3)]


def client(orch: Orch) -> Client:
    """Speaks to a daemon's socket, and starts none."""
    return Client(Path(orch.json("daemon", "status", check=None)["socket"]))


def is_driver(orch: Orch) -> bool:
    """Whether a daemon drives the one host."""
    return any(lease["here"] for lease in client(orch).get("/v1/daemon")["leases"])


def until(holds: Callable[[], Any], within_s: float, orch: Orch) -> float:
    """Seconds until it holds."""
    began = time.monotonic()
    orch.until(holds, timeout_s=within_s)
    return time.monotonic() - began


def lines(orch: Orch, run: str) -> int:
    """How many bytes of the log a daemon has to give."""
    return client(orch).log(run, tail=0).size
