"""A stop that cannot be done yet is done once it can: the target is back, or lets us in again."""

import os
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.acceptance.conftest import MakeOrch, lab_job, local_job
from tests.lab.lab import Lab

STEPS = "python3 -m played steps --count 0 --pause 0.2"


def test_target_that_comes_back_into_the_inventory(make_orch: MakeOrch, short_folder: Path) -> None:
    """A run of an older orch whose target is gone is not stopped, and says why; then it is."""
    orch = make_orch(local_job(short_folder, STEPS))
    file = orch.folder / "inventory.yaml"
    whole = file.read_text()
    run = orch.json("run", "--detach")["run"]
    orch.until(lambda: orch.json("show", run)["state"] == "running")
    database = Path(orch.json("daemon", "status")["state_folder"]) / "orch.db"
    orch("daemon", "stop")
    with closing(sqlite3.connect(database)) as older, older:
        older.execute("UPDATE runs SET whereabouts = NULL")
    file.write_text(
        whole.replace("  local: {", "  other: {").replace("target: local", "target: other")
    )
    orch("daemon", "start")
    refused = orch("stop", run, check=None)
    assert refused.returncode == 2
    assert "its target local is no longer in the inventory" in refused.stderr
    seen = orch.json("show", run)
    file.write_text(whole)
    orch.until(lambda: orch.json("show", run)["log_bytes"] > seen["log_bytes"])
    orch("stop", run)
    assert orch.json("show", run)["state"] == "stopped"


def test_a_target_that_is_edited_under_a_run(make_orch: MakeOrch, short_folder: Path) -> None:
    """Its run goes on being watched over the new link, and is stopped over it."""
    orch = make_orch(local_job(short_folder, STEPS))
    file = orch.folder / "inventory.yaml"
    run = orch.json("run", "--detach")["run"]
    orch.until(lambda: orch.json("show", run)["log_bytes"] > 0)
    file.write_text(file.read_text().replace("{host: here,", "{host: here, labels: {rack: a},"))
    orch("deploy")
    seen = orch.json("show", run)["log_bytes"]
    orch.until(lambda: orch.json("show", run)["log_bytes"] > seen + 100)
    stopped = orch.json("stop", run)
    assert stopped["run"]["state"] == "stopped"
    assert stopped["ended"]


def test_a_target_that_goes_to_another_place_under_a_run(
    make_orch: MakeOrch, short_folder: Path
) -> None:
    """Its run is watched and stopped where it was launched, and nowhere launched again."""
    orch = make_orch(local_job(short_folder, STEPS))
    file = orch.folder / "inventory.yaml"
    run = orch.json("run", "--detach")["run"]
    orch.until(lambda: orch.json("show", run)["log_bytes"] > 0)
    host = "  here: {transport: local}\n"
    there = "  there: {hostname: 127.0.0.1, port: 1}\n"
    elsewhere = file.read_text().replace(host, host + there)
    file.write_text(elsewhere.replace("{host: here,", "{host: there,"))
    orch.until(lambda: "local at here" in orch("status", "--json").stdout)
    seen = orch.json("show", run)["log_bytes"]
    orch.until(lambda: orch.json("show", run)["log_bytes"] > seen + 100)
    stopped = orch.json("stop", run)
    assert stopped["run"]["state"] == "stopped"
    assert stopped["run"]["attempt"] == 1
    assert stopped["ended"]


@pytest.mark.lab
@pytest.mark.xdist_group("lab-away")
def test_stop_while_the_host_key_is_refused(
    make_orch: MakeOrch, lab: Lab, short_folder: Path
) -> None:
    """A stop that meets a changed host key ends the run once the key is trusted again."""
    known, trusted = short_folder / "known_hosts", lab.host.known_hosts.read_text()
    known.write_text(trusted)
    orch = make_orch(lab_job(lab, STEPS).replace(str(lab.host.known_hosts), str(known)))
    run = orch.json("run", "--detach")["run"]
    orch.until(lambda: orch.json("show", run)["state"] == "running")
    known.write_text("")
    lab.host.kill_sshd()
    lab.host.start_sshd()
    orch.until(lambda: orch.json("show", run)["link"] == "unreachable")
    said = orch("stop", run, check=4).stdout
    assert "ct200 cannot be reached, last seen" in said
    assert "the stop is kept" in said
    kept = orch.json("stop", run, check=4)
    assert (kept["kept"], kept["run"]["id"], kept["run"]["state"]) == (True, run, "stopping")
    orch.until(lambda: "action.waits" in orch.log())
    known.write_text(trusted)
    orch.until(lambda: orch.json("show", run)["state"] == "stopped", timeout_s=90)


@pytest.mark.lab
@pytest.mark.xdist_group("lab-away")
def test_stop_in_a_backoff_while_the_host_key_is_refused(
    make_orch: MakeOrch, lab: Lab, short_folder: Path
) -> None:
    """What the attempt left is ended once the key is trusted, also by a daemon that began since."""
    known, trusted = short_folder / "known_hosts", lab.host.known_hosts.read_text()
    known.write_text(trusted)
    words = '["sh", "-c", "setsid sleep 31337 & exec python3 -m played infra --fail 9"]'
    more = "    restart: {on: [infra], max_attempts: 3, within: 1h, backoff: 1h}\n"
    text = lab_job(lab, words, more).replace(str(lab.host.known_hosts), str(known))
    orch = make_orch(text)
    run = orch.json("run", "--detach")["run"]
    orch.until(lambda: orch.json("show", run)["state"] == "backoff")
    known.write_text("")
    lab.host.kill_sshd()
    lab.host.start_sshd()
    orch.until(lambda: orch.json("show", run)["link"] == "unreachable")
    kept = orch.json("stop", run, check=4)
    assert (kept["kept"], kept["run"]["state"]) == (True, "stopped")
    orch.until(lambda: "action.waits" in orch.log())
    os.kill(orch.json("daemon", "status")["pid"], signal.SIGKILL)
    known.write_text(trusted)
    find = ("exec", "ct200", "--", "pgrep", "-xf", "sleep 31337")
    assert orch(*find).stdout
    orch("daemon", "start")
    orch.until(lambda: orch(*find, check=None).returncode == 1, timeout_s=90)
