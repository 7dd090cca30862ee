"""One inventory has one state folder, socket and lock, however its path is written."""

import json
import os
from pathlib import Path

import pytest

from orchestrator.api.location import (
    MAX_SOCKET_BYTES,
    all_notes,
    daemon_socket,
    find_inventory,
    living,
    locate,
    read_note,
    write_note,
)
from orchestrator.core.errors import UsageError
from orchestrator.probe.procfs import start_time


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with an inventory, and folders below it."""
    (tmp_path / "inventory.yaml").write_text("version: 1\n")
    (tmp_path / "a" / "b").mkdir(parents=True)
    return tmp_path


def test_inventory_is_found_in_a_folder_above(project: Path) -> None:
    """From deep inside a project, the project's own inventory is meant."""
    assert find_inventory(None, {}, project / "a" / "b") == project / "inventory.yaml"


def test_option_wins_over_variable_and_variable_over_folder(project: Path) -> None:
    """--config before ORCH_CONFIG before what lies about; relative paths count from here."""
    for name in ("one.yaml", "two.yaml"):
        (project / "a" / name).write_text("version: 1\n")
    environ = {"ORCH_CONFIG": str(project / "a" / "two.yaml")}
    assert find_inventory("one.yaml", environ, project / "a") == project / "a" / "one.yaml"
    assert find_inventory(None, environ, project) == project / "a" / "two.yaml"


def test_named_file_that_is_not_there_is_refused(project: Path) -> None:
    """A wrong --config never falls back to another inventory."""
    with pytest.raises(UsageError, match=r"--config names nowhere\.yaml"):
        find_inventory("nowhere.yaml", {}, project)


def test_no_inventory_anywhere_says_what_to_do(tmp_path: Path) -> None:
    """Without an inventory the sentence names the folder and the option."""
    with pytest.raises(UsageError, match="--config FILE"):
        find_inventory(None, {}, tmp_path)


def test_a_link_to_an_inventory_is_the_same_inventory(project: Path) -> None:
    """The state folder hangs on the real path alone."""
    link = project / "a" / "link.yaml"
    link.symlink_to(project / "inventory.yaml")
    environ = {"HOME": "/home/me"}
    assert locate(link, environ) == locate(project / "inventory.yaml", environ)
    assert locate(link, environ).state_folder.parent == Path("/home/me/.local/state/orch")


def test_two_inventories_share_nothing(project: Path) -> None:
    """Another file is another state folder, socket and lock."""
    other = project / "a" / "inventory.yaml"
    other.write_text("version: 1\n")
    first, second = (locate(path, {"HOME": "/h"}) for path in (project / "inventory.yaml", other))
    assert not set(first) & set(second)


def test_socket_lies_in_the_runtime_folder_where_there_is_one(project: Path) -> None:
    """XDG_RUNTIME_DIR is used when it exists, the state folder otherwise."""
    run = project / "run"
    environ = {"HOME": "/h", "XDG_RUNTIME_DIR": str(run)}
    inventory = project / "inventory.yaml"
    assert (
        locate(inventory, environ).socket == locate(inventory, environ).state_folder / "orch.sock"
    )
    run.mkdir()
    if len(os.fsencode(run)) < 60:
        assert locate(inventory, environ).socket.parent == run / "orch"


def test_socket_path_is_always_short_enough(project: Path) -> None:
    """Deep state folders do not make a socket that the kernel refuses."""
    environ = {"HOME": "/" + "deep/" * 40}
    socket = locate(project / "inventory.yaml", environ).socket
    assert len(os.fsencode(socket)) <= MAX_SOCKET_BYTES


def test_clients_believe_the_daemons_note(project: Path) -> None:
    """A client with another XDG_RUNTIME_DIR still finds the socket that the daemon made."""
    environ = {"HOME": str(project)}
    theirs = locate(project / "inventory.yaml", environ)
    theirs.state_folder.mkdir(parents=True)
    write_note(theirs._replace(socket=Path("/run/user/0/orch/x.sock")), 42)
    assert daemon_socket(theirs) == Path("/run/user/0/orch/x.sock")
    assert read_note(theirs.note)["pid"] == 42
    assert [note["pid"] for note in all_notes(environ)] == [42]


def test_note_is_replaced_in_one_step(project: Path) -> None:
    """Whoever reads the old one while a new one is left has the old one whole, not half of each."""
    location = locate(project / "inventory.yaml", {"HOME": str(project)})
    location.state_folder.mkdir(parents=True)
    write_note(location, 42)
    with location.note.open() as old:
        write_note(location, 43)
        assert json.load(old)["pid"] == 42
    assert read_note(location.note)["pid"] == 43


def test_broken_note_is_no_note(project: Path) -> None:
    """Half a note, or something else of its name, is passed over."""
    location = locate(project / "inventory.yaml", {"HOME": str(project)})
    location.state_folder.mkdir(parents=True)
    for content in ("{", "[]", ""):
        location.note.write_text(content)
        assert daemon_socket(location) == location.socket


@pytest.mark.parametrize(("later", "lives"), [(0, True), (1, False), (0.0, False)])
def test_a_note_names_the_very_process_that_left_it(
    project: Path, later: float, lives: bool
) -> None:
    """Whoever has the daemon's PID by now is no daemon, and is not ended as one."""
    location = locate(project / "inventory.yaml", {"HOME": str(project)})
    location.state_folder.mkdir(parents=True)
    start = start_time(os.getpid())
    assert start is not None
    location.note.write_text(json.dumps({"pid": os.getpid(), "start": start + later}))
    assert living(location) == ((os.getpid(), start) if lives else None)
