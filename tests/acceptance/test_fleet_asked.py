"""Whichever daemon of a fleet is asked, the job gets done: passed on, or the host comes over."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from orchestrator.api.client import Client
from orchestrator.core.errors import ApiError
from tests.acceptance.conftest import PLAYED, MakeOrch, Orch, local_job
from tests.acceptance.fleet import STORY, client, is_driver, lines, three
from tests.lab.postgres import Postgres
from tests.lab.receiver import Receiver

MACHINE_ID = Path("/etc/machine-id")

pytestmark = [pytest.mark.xdist_group("pg"), pytest.mark.slow, pytest.mark.timeout(180)]


@pytest.fixture
def daemons(
    make_orch: MakeOrch,
    postgres: Postgres,
    short_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> list[Orch]:
    """Two of three daemons run, and the first one drives the host with a run on it."""
    found = three(make_orch, postgres, short_folder, monkeypatch)
    for orch in found[:2]:
        orch("daemon", "start")
    found[0]("run", "--detach")
    found[1].until(lambda: found[1].json("status")["runs"])
    return found


def test_what_acts_on_a_run_is_done_by_who_drives_it(
    daemons: list[Orch], receiver: Receiver
) -> None:
    """Logs, ack, wait, bundle and stop of the other daemon: done once, and in the journal."""
    driver, asked, _ = daemons
    (opened,) = asked.until(lambda: asked.json("incidents")["incidents"])
    assert asked.json("ack", opened["id"])["state"] == "acknowledged"
    assert asked("logs", "@1", "--tail", "1").stdout.startswith("line ")
    assert asked.json("wait", "@1", "--until", "log:line 3 ")["reached"]
    asked("bundle", "@1", "-o", str(asked.folder / "bundle.tar.gz"))
    assert (asked.folder / "bundle.tar.gz").stat().st_size > 1000
    stopped = asked.json("stop", "@1")
    assert stopped["run"]["state"] == "stopped"
    assert is_driver(driver)
    told = [one["text"] for one in client(asked).get("/v1/runs/dflash-1/timeline")["events"]]
    (stop,) = [text for text in told if text.startswith("stop by ")]
    assert " on " in stop
    # A run that is gone is refused in the words of the daemon that knows.
    assert asked("stop", "@1").stdout == driver("stop", "@1").stdout


def test_a_client_that_leaves_ends_what_is_done_for_it(daemons: list[Orch]) -> None:
    """A `follow` that nobody reads any more is asked for by nobody, nor kept in the database."""
    driver, asked, _ = daemons
    stream = client(asked).stream("GET", "/v1/runs/dflash-1/follow")
    assert next(stream)["kind"] == "run"
    assert isinstance(stream, Generator)
    stream.close()
    asked.until(lambda: "request.left" in driver.log(), timeout_s=60)


def test_who_is_asked_to_launch_drives_the_host_from_then_on(
    daemons: list[Orch], short_folder: Path
) -> None:
    """`run` ships the tree of whoever is asked; the runs that live there come along."""
    driver, asked, _ = daemons
    done = asked("run", "--replace", "--detach")
    assert "is driven by this daemon now" in done.stderr
    assert is_driver(asked)
    driver.until(lambda: not is_driver(driver))
    known = {"dflash-1": "stopped", "dflash-2": "running"}
    driver.until(
        lambda: {one["id"]: one["state"] for one in driver.json("ps", "--all")["runs"]} == known
    )
    # And back, by a deploy; the run goes on through it and its log stays whole.
    assert "is driven by this daemon now" in driver("deploy").stderr
    assert is_driver(driver)
    (short_folder / "finish").touch()
    driver.until(lambda: driver.json("show", "dflash-2")["state"] == "finished")
    shown = driver.json("show", "dflash-2")
    assert shown["attempt"] == 1
    written = (Path(shown["directory"]) / "attempt-1" / "output.log").read_bytes()
    assert client(driver).log("dflash-2").content == written


def test_a_host_does_not_come_over_where_it_would_leave_a_run_alone(daemons: list[Orch]) -> None:
    """An inventory without the job of a run that lives there: it says whom to ask, and how."""
    driver, _, third = daemons
    text = (third.folder / "inventory.yaml").read_text().replace("dflash:", "other:", 1)
    (third.folder / "inventory.yaml").write_text(text)
    third("daemon", "start")
    done = third("run", "--detach", check=None)
    assert done.returncode == 1
    pid = driver.json("daemon", "status")["pid"]
    assert f"is driven by the daemon {pid} on " in done.stderr
    assert "dflash-1 lives there" in done.stderr
    assert f"--config {driver.folder / 'inventory.yaml'}" in done.stderr
    assert is_driver(driver)


def test_a_host_is_not_given_up_while_a_run_of_it_is_stopped(
    daemons: list[Orch], short_folder: Path
) -> None:
    """Whoever waits for the end of a run gets it; whoever wants the host is told why not yet."""
    driver, asked, _ = daemons
    (short_folder / "stubborn").touch()
    seen = lines(driver, "@1")
    driver.until(lambda: lines(driver, "@1") > seen + 500)
    stop = driver.start("stop", "@1", "--grace", "60", "--json")
    driver.until(lambda: driver.json("show", "@1")["state"] == "stopping")
    done = asked("deploy", check=None)
    assert done.returncode == 1
    assert "dflash-1 is being stopped there" in done.stderr
    pid = driver.json("daemon", "status")["pid"]
    assert f"is driven by the daemon {pid} on " in done.stderr
    assert is_driver(driver)
    (short_folder / "finish").touch()
    said, _ = stop.communicate(timeout=60)
    assert json.loads(said)["run"]["state"] == "stopped"
    assert "is driven by this daemon now" in asked("deploy").stderr


def test_prune_reaches_what_another_daemon_drives(daemons: list[Orch]) -> None:
    """The driver removes what is old on its targets, and drives them still."""
    driver, asked, third = daemons
    driver("stop", "dflash-1")
    planned, done = (
        asked.json("prune", "--older-than", "1ms", *more)["targets"] for more in (["--dry-run"], [])
    )
    assert [one["error"] for one in (*planned, *done)] == [None, None]
    assert [run["name"].partition(".")[0] for run in done[0]["runs"]] == ["dflash-1"]
    assert [run["name"] for run in planned[0]["runs"]] == [run["name"] for run in done[0]["runs"]]
    assert not Path(driver.json("show", "dflash-1")["directory"]).exists()
    assert is_driver(driver)
    inventory = third.folder / "inventory.yaml"
    inventory.write_text(inventory.read_text().replace("dflash:", "other:", 1))
    (refused,) = third.json("prune", check=4)["targets"]
    assert "has no job other there in its inventory" in refused["error"]


def test_only_what_belongs_to_a_host_is_asked_of_others(
    daemons: list[Orch], postgres: Postgres
) -> None:
    """A row in the database ends no daemon: only the questions of the list are done."""
    driver, *_ = daemons
    host = next(one["host"] for one in driver.json("daemon", "status")["leases"])
    url = driver.env["ORCH_STORE"]
    postgres.query(
        url,
        "INSERT INTO requests (id, host, method, path, body, by, state, created_at, wanted_until) "
        f"VALUES ('x', '{host}', 'POST', '/v1/daemon/stop', '', 'eve', 'asked', 0, 9e9)",
    )
    driver.until(lambda: "is nothing that daemons ask of each other" in driver.log())
    asked = "SELECT state FROM requests WHERE id = 'x'"
    driver.until(lambda: postgres.query(url, asked) == ["broken"])
    assert Client(Path(driver.json("daemon", "status")["socket"])).daemon_view()["running"]
    with pytest.raises(ApiError, match="no run"):
        client(driver).call("POST", "/v1/runs/none/stop", {})


def test_two_hosts_that_are_one_machine_are_driven_apart(
    make_orch: MakeOrch,
    postgres: Postgres,
    short_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One of them changes hands, and the run on the other is ended by who drives that one."""
    monkeypatch.setenv("ORCH_STORE", postgres.database())
    (short_folder / "story.py").write_text(STORY)
    text = local_job(short_folder, f"python3 {short_folder}/story.py {short_folder}")
    text = text.replace("hosts:\n", "hosts:\n  again: {transport: local}\n")
    target = f"  also: {{host: again, python: {sys.executable}}}\n"
    text = text.replace("targets:\n", f"targets:\n{target}")
    job = f"target: also, package: {PLAYED}, workdir: {short_folder}/also, command: sleep 1"
    text = text.replace("jobs:\n", f"jobs:\n  also: {{{job}}}\n")
    first, second = (make_orch(text) for _ in range(2))
    first("run", "dflash", "--detach")
    for orch in (second, first, second):
        orch("deploy", "also")
    assert first.json("stop", "dflash-1")["run"]["state"] == "stopped"


@pytest.mark.skipif(
    os.getuid() != 0 or not MACHINE_ID.is_file(), reason="gives a daemon another /etc/machine-id"
)
def test_two_machines_of_one_name_are_two(
    make_orch: MakeOrch,
    postgres: Postgres,
    short_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each of two daemons drives its own `local` host, although both machines have one name."""
    first, second, _ = three(make_orch, postgres, short_folder, monkeypatch)
    first("daemon", "start")
    (short_folder / "machine-id").write_text("0123456789abcdef0123456789abcdef\n")
    words = f"mount --bind {short_folder}/machine-id {MACHINE_ID} && exec"
    argv = shlex.join(second.argv("daemon", "run"))
    daemon = subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", f"{words} {argv}"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=second.folder,
        env=second.env,
    )
    try:
        second.until(lambda: second("daemon", "status", check=None).returncode == 0)
        first.until(lambda: len(first.json("daemon", "status")["leases"]) == 2)
        assert is_driver(first)
        assert is_driver(second)
        names = [one["host"] for one in first.json("daemon", "status")["leases"]]
        assert len({name.rpartition("-")[0] for name in names}) == 1
        assert len(set(names)) == 2
    finally:
        second("daemon", "stop", check=None)
        daemon.wait(timeout=30)
