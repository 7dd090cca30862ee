"""A target that is edited while no daemon is there: its run is where it was, and only there."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.acceptance.conftest import MakeOrch, Orch, lab_job, local_job
from tests.acceptance.test_survival import kill_daemon
from tests.conftest import TmuxCall
from tests.lab.lab import Lab
from tests.lab.postgres import Postgres

STEPS = "python3 -m played steps --count 0 --pause 0.2"
RESTART = "    restart: {on: [lost], max_attempts: 3, within: 1h, backoff: 100ms}\n"
RELAY = ("pgrep", "-f", "played steps")


def edit(orch: Orch, *changes: tuple[str, str]) -> None:
    """Kill the daemon, change its inventory, and start another one."""
    kill_daemon(orch)
    file = orch.folder / "inventory.yaml"
    text = file.read_text()
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    file.write_text(text)
    orch("daemon", "start")


def goes_on(orch: Orch, run: str) -> None:
    """Its output is seen as it grows."""
    seen = orch.json("show", run)["log_bytes"]
    orch.until(lambda: orch.json("show", run)["log_bytes"] > seen + 100)


def attached(orch: Orch, run: str, tmux: TmuxCall) -> str:
    """What `orch attach` shows once it shows the run's session."""
    words = " ".join(orch.argv("attach", run))
    tmux(
        *("-L", "viewer", "new-session", "-d", "-x", "120", "-y", "40", "-s", "v"),
        *("-c", str(orch.folder), f"env -u TMUX {words}; echo came back; sleep 60"),
    )

    def screen() -> str:
        return tmux("-L", "viewer", "capture-pane", "-p", "-t", "v").stdout

    orch.until(lambda: "[dflash]" in screen() or "came back" in screen())
    found = screen()
    tmux("-L", "viewer", "kill-session", "-t", "v", check=False)
    return found


@pytest.mark.lab
@pytest.mark.xdist_group("lab")
def test_another_container_under_the_same_name(
    make_orch: MakeOrch, lab: Lab, tmux: TmuxCall
) -> None:
    """Its run is watched, entered and stopped in the old one, and launched in neither again."""
    orch = make_orch(lab_job(lab, STEPS, RESTART))
    run = orch.json("run", "--detach")["run"]
    orch.until(lambda: orch.json("show", run)["log_bytes"] > 100)
    edit(orch, ("container: 200}", "container: 201}"))
    goes_on(orch, run)
    shown = orch.json("show", run)
    assert (shown["state"], shown["attempt"], shown["link"]) == ("running", 1, "connected")
    assert (shown["place"]["container"], shown["place"]["host"]["name"]) == ("200", "pve1")
    assert "run.stays" in orch.log()
    assert "step" in orch("logs", run).stdout
    assert "loss" in attached(orch, run, tmux)
    stopped = orch.json("stop", run)
    assert (stopped["run"]["state"], stopped["run"]["attempt"]) == ("stopped", 1)
    assert stopped["ended"]
    assert orch("exec", "pve1/pct:200", "--", *RELAY, check=None).returncode == 1
    assert orch("exec", "pve1/pct:201", "--", "test", "-e", "/srv/orch", check=None).returncode == 1


@pytest.mark.lab
@pytest.mark.xdist_group("lab")
def test_another_machine_at_the_edited_address(make_orch: MakeOrch, lab: Lab) -> None:
    """What is not there stays where it was, also where the old address is one of no host more."""
    orch = make_orch(lab_job(lab, STEPS, RESTART))
    run = orch.json("run", "--detach")["run"]
    orch.until(lambda: orch.json("show", run)["log_bytes"] > 100)
    with Lab.start(containers=("200",)) as other:
        trusted = lab.host.known_hosts.read_text()
        lab.host.known_hosts.write_text(trusted + other.host.known_hosts.read_text())
        key, port = "identity_file", "    port"
        edit(
            orch,
            (f"{port}: {lab.host.port}\n", f"{port}: {other.host.port}\n"),
            (f"{key}: {lab.host.identity_file}", f"{key}: {other.host.identity_file}"),
        )
        goes_on(orch, run)
        shown = orch.json("show", run)
        assert (shown["state"], shown["attempt"]) == ("running", 1)
        assert shown["place"]["host"]["port"] == lab.host.port
        stopped = orch.json("stop", run)
        assert (stopped["run"]["state"], stopped["run"]["attempt"]) == ("stopped", 1)
        assert stopped["ended"]
        where = ("exec", "ct200", "--", "test", "-e", "/srv/orch")
        assert orch(*where, check=None).returncode == 1


@pytest.mark.lab
@pytest.mark.xdist_group("lab")
def test_a_new_address_of_the_same_machine(make_orch: MakeOrch, lab: Lab) -> None:
    """It is asked whether it has the run; it has, so the run is watched and stopped there."""
    orch = make_orch(lab_job(lab, STEPS, RESTART))
    run = orch.json("run", "--detach")["run"]
    orch.until(lambda: orch.json("show", run)["log_bytes"] > 100)
    lab.host.trust_at("localhost", lab.host.port)
    edit(orch, (f"hostname: {lab.host.address}", "hostname: localhost"))
    goes_on(orch, run)
    assert "run.stays" not in orch.log()
    orch.until(lambda: orch.json("show", run)["place"]["host"]["hostname"] == "localhost")
    assert orch.json("stop", run)["ended"]


def test_a_target_that_was_taken_out(make_orch: MakeOrch, short_folder: Path) -> None:
    """Its run is watched where it was, by each daemon that comes, and stopped there."""
    orch = make_orch(local_job(short_folder, STEPS, RESTART))
    run = orch.json("run", "--detach")["run"]
    orch.until(lambda: orch.json("show", run)["log_bytes"] > 0)
    edit(orch, ("  local: {", "  other: {tmux_socket: o, "), ("target: local", "target: other"))
    goes_on(orch, run)
    kill_daemon(orch)
    orch("daemon", "start")
    goes_on(orch, run)
    stopped = orch.json("stop", run)
    assert (stopped["run"]["state"], stopped["run"]["attempt"]) == ("stopped", 1)
    assert stopped["ended"]


def test_a_run_that_an_older_orch_stored(make_orch: MakeOrch, short_folder: Path) -> None:
    """It has no place: one that is seen is stored, so that the next edit does not lose it."""
    orch = make_orch(local_job(short_folder, STEPS, RESTART))
    run = orch.json("run", "--detach")["run"]
    orch.until(lambda: orch.json("show", run)["log_bytes"] > 0)
    database = Path(orch.json("daemon", "status")["state_folder"]) / "orch.db"
    orch("daemon", "stop")
    with closing(sqlite3.connect(database)) as older, older:
        older.execute("UPDATE runs SET whereabouts = NULL")
    orch("daemon", "start")
    goes_on(orch, run)
    with closing(sqlite3.connect(database)) as now:
        orch.until(lambda: now.execute("SELECT whereabouts FROM runs").fetchone()[0])
    edit(orch, ("{host: here,", "{host: here, tmux_socket: o,"))
    goes_on(orch, run)
    assert orch.json("stop", run)["ended"]


@pytest.mark.xdist_group("pg")
def test_a_daemon_of_a_fleet_keeps_the_host_of_its_run(
    make_orch: MakeOrch,
    postgres: Postgres,
    short_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No target leads there any more, so that nobody would drive it, and the run be forgotten."""
    monkeypatch.setenv("ORCH_STORE", postgres.database())
    orch = make_orch(local_job(short_folder, STEPS, RESTART))
    run = orch.json("run", "--detach")["run"]
    orch.until(lambda: orch.json("show", run)["log_bytes"] > 0)
    here = "  here: {transport: local}\n"
    edit(
        orch,
        (here, f"{here}  there: {{hostname: 127.0.0.1, port: 1}}\n"),
        ("{host: here,", "{host: there,"),
    )
    goes_on(orch, run)
    stopped = orch.json("stop", run)
    assert (stopped["run"]["state"], stopped["run"]["attempt"]) == ("stopped", 1)
    assert stopped["ended"]
