"""Where a daemon and its clients meet: inventory, state folder, socket, lock and note.

Standard library only, since every command of the reading path comes through here. Reads no YAML,
and makes no folder: the daemon does that, once its inventory is known to be good.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from orchestrator.core.errors import UsageError
from orchestrator.probe.procfs import lives, start_time

INVENTORY_NAME = "inventory.yaml"
LOG_NAME = "daemon.log"
MAX_SOCKET_BYTES = 99
"""The kernel takes 107; below 100 every client and every tool does."""


class Location(NamedTuple):
    """The places that belong to one inventory; all absolute."""

    inventory: Path
    """Real path of the file."""
    state_folder: Path
    socket: Path
    lock: Path
    """Locked (flock) by the daemon for as long as it lives."""
    note: Path
    """JSON that the daemon leaves: pid, start (in clock ticks since boot), socket, inventory.

    Clients believe its socket.
    """
    log: Path


def find_inventory(option: str | None, environ: Mapping[str, str], folder: Path) -> Path:
    """Path of the inventory: `--config`, else ORCH_CONFIG, else inventory.yaml here or above.

    Raises UsageError where there is none.
    """
    for source, said in (("--config", option), ("ORCH_CONFIG", environ.get("ORCH_CONFIG"))):
        if said:
            path = folder / Path(said).expanduser()
            if path.is_file():
                return path
            if path.is_dir():
                raise UsageError(
                    f"{source} names {said}, which is a folder.",
                    remedy=f"Name the file in it, as in {Path(said) / INVENTORY_NAME}.",
                )
            raise UsageError(
                f"{source} names {said}, and there is no such file.",
                remedy="Give the path of an inventory.yaml.",
            )
    for place in (folder, *folder.parents):
        if (place / INVENTORY_NAME).is_file():
            return place / INVENTORY_NAME
    raise UsageError(
        f"No {INVENTORY_NAME} in {folder} or any folder above it.",
        remedy="Change to your project's folder, give --config FILE, or begin with `orch init`; "
        "logs, attach and stop need none with --target HOST/pct:ID.",
    )


def state_root(environ: Mapping[str, str]) -> Path:
    """Folder of all state folders: `$XDG_STATE_HOME/orch`."""
    said = environ.get("XDG_STATE_HOME")
    if said and Path(said).is_absolute():
        return Path(said) / "orch"
    home = environ.get("HOME")
    return (Path(home) if home else Path.home()) / ".local" / "state" / "orch"


def locate(inventory: Path, environ: Mapping[str, str]) -> Location:
    """The places of an inventory; the same for every path that leads to the same file."""
    real = inventory.resolve()
    name = hashlib.sha256(os.fsencode(real)).hexdigest()[:16]
    folder = state_root(environ) / name
    return Location(
        inventory=real,
        state_folder=folder,
        socket=_socket(folder, name, environ),
        lock=folder / "daemon.lock",
        note=folder / "daemon.json",
        log=folder / LOG_NAME,
    )


def locate_daemon(option: str | None, environ: Mapping[str, str], folder: Path) -> Location:
    """The places of the inventory that is meant, also of one that is gone and has a daemon yet.

    Raises as `find_inventory`.
    """
    try:
        return locate(find_inventory(option, environ, folder), environ)
    except UsageError:
        said = option or environ.get("ORCH_CONFIG")
        places = (folder, *folder.parents)
        gone = [folder / Path(said).expanduser()] if said else [p / INVENTORY_NAME for p in places]
        for path in gone:
            location = locate(path, environ)
            if living(location) is not None:
                return location
        raise


def living(location: Location) -> tuple[int, int] | None:
    """PID and start of the daemon that left the note, where that very process still runs."""
    note = read_note(location.note)
    pid, start = note.get("pid"), note.get("start")
    if not isinstance(pid, int) or not isinstance(start, int):
        return None
    return (pid, start) if lives(pid, start) else None


def _socket(folder: Path, name: str, environ: Mapping[str, str]) -> Path:
    places = [folder / "orch.sock"]
    runtime = environ.get("XDG_RUNTIME_DIR")
    if runtime and Path(runtime).is_dir():
        places.insert(0, Path(runtime) / "orch" / f"{name}.sock")
    for place in places:
        if len(os.fsencode(place)) <= MAX_SOCKET_BYTES:
            return place
    # Both are too long for a socket; this folder is the user's own, 0700.
    return Path(f"/tmp/orch-{os.getuid()}/{name}.sock")  # noqa: S108  see above


def daemon_socket(location: Location) -> Path:
    """The socket to call: the one in the daemon's note, else the one it would make."""
    said = read_note(location.note).get("socket")
    return Path(said) if isinstance(said, str) else location.socket


def read_note(path: Path) -> dict[str, Any]:
    """What a daemon left in its note; empty where there is none."""
    try:
        said = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return said if isinstance(said, dict) else {}


def write_note(location: Location, pid: int) -> None:
    """Leave the daemon's note, in one step; the state folder must be there."""
    places = {"socket": str(location.socket), "inventory": str(location.inventory)}
    start = start_time(pid)
    new = location.note.with_suffix(".new")
    new.write_text(json.dumps({"pid": pid, "start": start, **places}), encoding="utf-8")
    new.replace(location.note)


def all_notes(environ: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """The notes of every daemon of this user, dead ones too, in the order of their inventories."""
    notes = [read_note(path) for path in state_root(environ).glob("*/daemon.json")]
    yield from sorted((note for note in notes if note), key=lambda note: str(note.get("inventory")))
