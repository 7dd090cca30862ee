"""Three daemons, one PostgreSQL, one host: of those that drive it one is killed and one hangs."""

import os
import signal
from pathlib import Path

import pytest

from tests.acceptance.conftest import MakeOrch, Orch
from tests.acceptance.fleet import (
    SLACK_S,
    TAKEN_OVER_WITHIN_S,
    client,
    is_driver,
    lines,
    three,
    until,
)
from tests.lab.postgres import Postgres
from tests.lab.receiver import Receiver

pytestmark = pytest.mark.xdist_group("pg")


@pytest.fixture
def daemons(
    make_orch: MakeOrch,
    postgres: Postgres,
    short_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> list[Orch]:
    """Three daemons' inventories."""
    return three(make_orch, postgres, short_folder, monkeypatch)


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
