"""The database of a fleet hangs or cuts its connections: runs go on, and are watched again."""

import time
from pathlib import Path

import pytest

from tests.acceptance.conftest import MakeOrch, Orch
from tests.acceptance.fleet import SLACK_S, TAKEN_OVER_WITHIN_S, client, is_driver, lines, three
from tests.lab.postgres import Postgres

pytestmark = [pytest.mark.xdist_group("pg"), pytest.mark.slow, pytest.mark.timeout(240)]

AWAY_S = 14.0
"""Longer than any lease lasts."""
CUT = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
    "WHERE datname = current_database() AND pid <> pg_backend_pid()"
)


@pytest.fixture
def daemons(
    make_orch: MakeOrch,
    postgres: Postgres,
    short_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> list[Orch]:
    """Two daemons run, and a run on the host that the first one drives."""
    found = three(make_orch, postgres, short_folder, monkeypatch)[:2]
    for orch in found:
        orch("daemon", "start")
    found[0]("run", "--detach")
    return found


def test_runs_go_on_while_the_database_is_away(
    daemons: list[Orch], postgres: Postgres, short_folder: Path
) -> None:
    """Cut connections and a server that hangs: one driver afterwards, one attempt, every byte."""
    first, second = daemons
    url = first.env["ORCH_STORE"]
    first.until(lambda: lines(first, "@1") > 0)
    for _ in range(3):
        postgres.query(url, CUT)
        assert second("logs", "@1", "--tail", "1", timeout_s=90).stdout
    assert is_driver(first)

    postgres.pause()
    try:
        began = time.monotonic()
        said = first("status", check=None)
        assert said.returncode != 0
        assert "database has not answered" in said.stderr
        time.sleep(max(0.0, began + AWAY_S - time.monotonic()))
    finally:
        postgres.go_on()
    back = time.monotonic()
    first.until(
        lambda: sorted(map(is_driver, daemons)) == [False, True],
        timeout_s=TAKEN_OVER_WITHIN_S + SLACK_S,
    )
    print(f"driven again {time.monotonic() - back:.1f} s after the database was back")

    driver = next(orch for orch in daemons if is_driver(orch))
    grown = lines(driver, "@1")
    driver.until(lambda: lines(driver, "@1") > grown)
    (short_folder / "finish").touch()
    driver.until(lambda: driver.json("show", "@1")["state"] == "finished")
    shown = driver.json("show", "@1")
    assert shown["attempt"] == 1
    written = (Path(shown["directory"]) / "attempt-1" / "output.log").read_bytes()
    assert written.count(b"begin") == 1
    assert client(driver).log("@1").content == written
    (opened,) = driver.json("incidents", "--all")["incidents"]
    assert opened["occurrences"] == 1
