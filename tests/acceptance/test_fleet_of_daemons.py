"""Three daemons, one PostgreSQL, one host: of those that drive it one is killed and one hangs."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrator.api.client import Client
from orchestrator.core.errors import ApiError
from tests.acceptance.conftest import MakeOrch, Orch, local_job
from tests.lab.postgres import Postgres
from tests.lab.receiver import Receiver

pytestmark = pytest.mark.xdist_group("pg")

TAKEN_OVER_WITHIN_S = 15.0
SLACK_S = 10.0
"""Beside the promise: the tests' own machine may be busy."""

STORY = """
import os, sys, threading, time
folder = sys.argv[1]
print("begin", os.environ["ORCH_ATTEMPT"], flush=True)
def die():
    raise ValueError("a thread of the story died")
thread = threading.Thread(target=die); thread.start(); thread.join()
number = 0
while not os.path.exists(folder + "/finish"):
    number += 1
    print("line", number, "x" * 80, flush=True)
    time.sleep(0.02)
print("end", flush=True)
"""


@pytest.fixture
def daemons(
    make_orch: MakeOrch,
    postgres: Postgres,
    short_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> list[Orch]:
    """Three inventories of the same fleet, each with a daemon of its own."""
    monkeypatch.setenv("ORCH_STORE", postgres.database())
    (short_folder / "story.py").write_text(STORY)
    text = local_job(short_folder, f"python3 {short_folder}/story.py {short_folder}")
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


@pytest.mark.slow
@pytest.mark.timeout(240)  # two leases have to end
def test_who_dies_or_hangs_is_succeeded(
    daemons: list[Orch], short_folder: Path, receiver: Receiver
) -> None:
    """The run goes on through all of it: launched once, told once, every byte kept once."""
    first, second, third = daemons
    first("daemon", "start")
    run = first.json("run", "--detach")["run"]
    receiver.wait_for(1)
    for orch in (second, third):
        orch("daemon", "start")

    # Whoever is asked answers for the whole fleet, and passes on what only the driver knows.
    assert is_driver(first)
    assert not is_driver(second)
    second.until(lambda: second.json("status")["runs"])
    assert second.json("show", run)["state"] == "running"
    assert second("logs", run, "--tail", "1").stdout.startswith("line ")
    with pytest.raises(ApiError, match=r"is driven by the daemon \d+ on "):
        list(client(second).stream("POST", "/v1/run", {"job": "dflash", "deploy": False}))

    # kill -9: another one takes over.
    pids = {id(orch): orch.json("daemon", "status")["pid"] for orch in daemons}
    os.kill(pids[id(first)], signal.SIGKILL)
    left = [second, third]
    took_s = until(lambda: any(map(is_driver, left)), TAKEN_OVER_WITHIN_S + SLACK_S, second)
    driver, spare = sorted(left, key=is_driver, reverse=True)
    before = lines(driver, run)
    until(lambda: lines(driver, run) > before, 30.0, driver)
    assert not is_driver(spare)

    # SIGSTOP: it holds its sockets and its memory, and is succeeded all the same.
    hanging = pids[id(driver)]
    os.kill(hanging, signal.SIGSTOP)
    try:
        hung_s = until(lambda: is_driver(spare), TAKEN_OVER_WITHIN_S + SLACK_S, spare)
        grown = lines(spare, run)
        until(lambda: lines(spare, run) > grown, 30.0, spare)
    finally:
        os.kill(hanging, signal.SIGCONT)
    driver.until(lambda: not is_driver(driver))
    assert is_driver(spare)

    # What hung knows that it drives nothing any more, and passes on a person's word.
    (short_folder / "finish").touch()
    spare.until(lambda: spare.json("show", run)["state"] == "finished")
    driver.until(lambda: driver.json("show", run)["state"] == "finished")
    shown = spare.json("show", run)
    assert shown["attempt"] == 1
    written = (Path(shown["directory"]) / "attempt-1" / "output.log").read_bytes()
    assert client(spare).log(run).content == written
    assert written.count(b"begin") == 1
    (opened,) = spare.json("incidents", "--all")["incidents"]
    assert opened["occurrences"] == 1
    ids = [(one.headers["webhook-id"], one.json["status"]) for one in receiver.wait_for(2)]
    assert sorted({status for _, status in ids}) == ["firing", "resolved"]
    assert len({ident for ident, _ in ids}) == 2
    print(f"taken over after {took_s:.1f} s (killed) and {hung_s:.1f} s (hanging)")
