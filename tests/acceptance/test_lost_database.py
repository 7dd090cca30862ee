"""A database that was damaged while nobody looked: the runs come back from their targets."""

import os
import random
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.api.client import Client
from tests.acceptance.conftest import MakeOrch, Orch, local_job
from tests.lab.lab import Lab
from tests.lab.receiver import Receiver

STORY = """
import os, sys, time
folder = sys.argv[1]
if os.path.exists(folder + "/crash"):
    raise ValueError("an old crash")
number = 0
while os.path.isdir(folder) and not os.path.exists(folder + "/finish"):
    number += 1
    print("line", number, "x" * 80, flush=True)
    time.sleep(0.02)
"""


@pytest.fixture
def nursery() -> None:
    """What a kill leaves on the disk is that of a daemon as a person has it: each is started."""


def truncate(database: Path) -> None:
    """Half of it is gone, and its WAL with it."""
    forget_wal(database)
    os.truncate(database, database.stat().st_size // 2 + 100)


def spoil_page_1(database: Path) -> None:
    """Random bytes where the schema stands."""
    forget_wal(database)
    content = bytearray(database.read_bytes().ljust(4096, b"x"))
    content[100:4096] = random.Random(1).randbytes(3996)
    database.write_bytes(content)


def spoil_everything(database: Path) -> None:
    """Random bytes in every page of the file and of its WAL, but for the first."""
    for path in (database, database.with_name(f"{database.name}-wal")):
        content = bytearray(path.read_bytes())
        content[4096:] = random.Random(2).randbytes(max(0, len(content) - 4096))
        path.write_bytes(content)


def forget_wal(database: Path) -> None:
    """What was not yet written back is gone; what is left is whole, and old."""
    for suffix in ("-wal", "-shm"):
        database.with_name(database.name + suffix).unlink(missing_ok=True)


@pytest.mark.parametrize("damage", [truncate, spoil_page_1, spoil_everything, forget_wal])
def test_runs_come_back_with_attempts_logs_and_ends(
    make_orch: MakeOrch,
    short_folder: Path,
    receiver: Receiver,
    damage: Callable[[Path], None],
) -> None:
    """One that crashed, one that finished and one that lives; the crash is not told twice."""
    (short_folder / "story.py").write_text(STORY)
    orch = make_orch(local_job(short_folder, f"python3 {short_folder}/story.py {short_folder}"))
    for word, code in (("crash", 100), ("finish", 0)):
        (short_folder / word).touch()
        orch("run", check=code)
        (short_folder / word).unlink()
    before = [orch.json("show", f"dflash-{number}") for number in (1, 2)]
    live = orch.json("run", "--detach")["run"]
    orch.until(lambda: orch("logs", live, "--raw").stdout.count("line") > 5)
    told = len(receiver.wait_for(2))
    place = orch.json("daemon", "status")
    os.kill(place["pid"], signal.SIGKILL)
    damage(Path(place["state_folder"]) / "orch.db")

    orch("daemon", "start")
    orch.until(lambda: len(orch.json("ps", "-a")["runs"]) == 3)
    orch.until(lambda: all(orch.json("show", one["id"])["ended_at"] for one in before))
    for one in before:
        back = orch.json("show", one["id"])
        same = ("state", "attempt", "exit_code", "signal", "directory", "release", "ended_at")
        assert {key: back[key] for key in same} == {key: one[key] for key in same}
        assert raw(orch, one["id"]) == written(back["directory"])
    assert orch.json("show", live)["state"] == "running"
    assert [one["run"] for one in orch.json("incidents", "--all")["incidents"]] == ["dflash-1"]
    (short_folder / "finish").touch()
    orch("wait", live)
    shown = orch.json("show", live)
    assert (shown["state"], shown["attempt"]) == ("finished", 1)
    assert raw(orch, live) == written(shown["directory"])
    assert orch.json("run", "--detach")["run"] == "dflash-4"
    assert len({one.headers["webhook-id"] for one in receiver.received}) == told
    checks = {one["name"]: one for one in orch.json("doctor", check=None)["checks"]}
    assert "its runs are back" in checks["database"]["text"]


AGAIN = """
import os, sys, time
with open(sys.argv[1] + "/words", "a") as words:
    print(os.environ["MODE"], *sys.argv[2:], file=words)
while not os.path.exists(sys.argv[1] + "/end"):
    time.sleep(0.05)
if os.environ["ORCH_ATTEMPT"] == "1":
    raise ValueError("the first attempt fails")
"""


def test_what_a_run_was_asked_for_comes_back_with_it(
    make_orch: MakeOrch, short_folder: Path
) -> None:
    """Its arguments, variables and reason; a restart begins it with the very same words."""
    (short_folder / "again.py").write_text(AGAIN)
    restart = "    restart: {on: [python_error], max_attempts: 2, backoff: 100ms}\n"
    command = f"python3 {short_folder}/again.py {short_folder}"
    orch = make_orch(local_job(short_folder, command, restart))
    orch("run", "--detach", "--env", "MODE=mild", "-m", "a try", "--", "--set", "a=b c")
    # Before its launch the target knows nothing of it.
    orch.until(lambda: orch.json("show", "@1")["state"] == "running")
    run = orch.json("show", "@1")
    lose_database(orch)
    orch.until(lambda: orch.json("ps", "-a")["runs"])
    back = orch.json("show", run["id"])
    assert (back["why"], back["attempt"]) == ("a try", 1)
    (short_folder / "end").touch()
    orch("wait", run["id"])
    words = (short_folder / "words").read_text().splitlines()
    assert words == ["mild --set a=b c"] * 2


def test_nodes_of_one_run_are_known_as_such_again(make_orch: MakeOrch, short_folder: Path) -> None:
    """Each comes back on its own target, and a stop of one still ends the other."""
    orch = make_orch(f"""
version: 1
hosts:
  here: {{transport: local}}
targets:
  a: {{host: here}}
  b: {{host: here, tmux_socket: b}}
jobs:
  pair:
    targets: [a, b]
    workdir: {short_folder}/w
    command: sleep 600
""")
    orch("run", "--detach")
    pair = ("pair-1", "pair-2")
    orch.until(lambda: all(orch.json("show", one)["state"] == "running" for one in pair))
    before = [orch.json("show", one) for one in pair]
    lose_database(orch)
    orch.until(lambda: len(orch.json("ps", "-a")["runs"]) == 2)
    after = [orch.json("show", one) for one in pair]
    same = ("target", "group", "node", "state")
    assert [[one[key] for key in same] for one in after] == [
        [one[key] for key in same] for one in before
    ]
    orch("stop", "pair")
    orch.until(lambda: {one["state"] for one in orch.json("ps", "-a")["runs"]} == {"stopped"})


def lose_database(orch: Orch) -> None:
    """A daemon is killed, its database spoiled, and another one starts."""
    place = orch.json("daemon", "status")
    os.kill(place["pid"], signal.SIGKILL)
    orch.until(lambda: orch("daemon", "status", check=None).returncode == 1)
    truncate(Path(place["state_folder"]) / "orch.db")
    orch("daemon", "start")


def raw(orch: Orch, run: str) -> bytes:
    """The log as the daemon has it."""
    return Client(Path(orch.json("daemon", "status")["socket"])).log(run).content


def written(directory: str) -> bytes:
    """The log as its program wrote it."""
    return (Path(directory) / "attempt-1" / "output.log").read_bytes()


@pytest.mark.lab
@pytest.mark.xdist_group("lab-away")
def test_what_is_asked_while_runs_come_back_waits_or_says_so(
    make_orch: MakeOrch, lab: Lab, short_folder: Path
) -> None:
    """A target that is away: its run is said to be asked for, another job's is shown at once."""
    inventory = f"""{lab.inventory_yaml()}  local: {{host: here}}
jobs:
  near: {{target: local, workdir: {short_folder}/w, command: sleep 600}}
  far: {{target: ct200, workdir: /srv/orch/far, command: sleep 600}}
"""
    orch = make_orch(inventory.replace("hosts:\n", "hosts:\n  here: {transport: local}\n", 1))
    for job in ("near", "far"):
        orch("run", job, "--detach")
    lab.host.kill_sshd()
    try:
        lose_database(orch)
        assert orch.json("show", "near")["id"] == "near-1"
        for words in (("show", "far"), ("logs", "@1")):
            refused = " ".join(orch(*words, check=2).stderr.split())
            assert "being asked for" in refused
            assert "(1 of 2 targets asked, ct200 not yet)" in refused
        assert "1 of 2 targets asked" in orch("status").stdout
        waiting = orch.start("run", "far", "--detach", "--replace")
        assert waiting.stdout is not None
        assert "being asked for first (1 of 2 targets asked" in waiting.stdout.readline()
    finally:
        lab.host.start_sshd()
    said, _ = waiting.communicate(timeout=60)
    assert "far-2" in said
    orch.until(lambda: orch.json("status")["daemon"]["rebuilding"] is None)
    assert orch.json("show", "far-1")["state"] == "stopped"
    for job in ("near", "far"):
        orch("stop", job)


@pytest.mark.lab
@pytest.mark.xdist_group("lab-away")
def test_a_host_whose_key_is_refused_is_asked_once_it_is_trusted(
    make_orch: MakeOrch, lab: Lab
) -> None:
    """Its runs are not given up meanwhile, and nothing says that they are back."""
    job = "jobs:\n  far: {target: ct200, workdir: /srv/orch/far, command: sleep 600}\n"
    orch = make_orch(f"{lab.inventory_yaml()}{job}")
    orch("run", "--detach")
    known = lab.host.known_hosts.read_text()
    lab.host.known_hosts.write_text("")
    try:
        lose_database(orch)
        orch.until(lambda: "store.rebuilding_waits" in orch.log())
        assert "0 of 1 targets asked" in orch("status", check=None).stdout
        checks = {one["name"]: one for one in orch.json("doctor", check=None)["checks"]}
        assert "0 of 1 targets asked" in checks["database"]["text"]
    finally:
        lab.host.known_hosts.write_text(known)
    orch.until(lambda: orch.json("status")["daemon"]["rebuilding"] is None)
    assert orch.json("show", "far-1")["state"] == "running"
    orch("stop", "far")
