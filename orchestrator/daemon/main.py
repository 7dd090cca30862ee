"""Starts and ends the daemon of one inventory: checks, lock, log, signals."""

import asyncio
import ctypes
import fcntl
import gc
import importlib
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from orchestrator.api.location import Location, locate, write_note
from orchestrator.core.errors import DaemonError
from orchestrator.daemon import logs
from orchestrator.daemon.inventory_file import InventoryFile
from orchestrator.daemon.listen import Listen

KEPT_INVENTORY = "inventory.good.yaml"

_PR_SET_DUMPABLE = 4

PARTS = "orchestrator.daemon.serving"


def main(config: str, listen: Listen | None = None) -> int:
    """Run the daemon of an inventory until it is told to end; OrchError where it cannot start."""
    location = locate(Path(config), os.environ)
    _keep_memory_to_ourselves()
    gc.disable()  # what is imported stays: looking for garbage in it takes a tenth of the start
    # Half a second of imports, while another process reads the inventory.
    loading = threading.Thread(target=_load, args=(location,), daemon=True)
    loading.start()
    inventory = InventoryFile(location.inventory, location.state_folder / KEPT_INVENTORY)
    with _writing(location):
        _make_folders(location)
    with _only_one(location):
        with _writing(location):
            logs.set_up(location.log)
        inventory.keep()
        loading.join()
        gc.freeze()
        gc.enable()
        from orchestrator.daemon.serving import serve

        asyncio.run(serve(location, inventory, listen))
    return 0


def _load(location: Location) -> None:
    """Import the parts; where there were runs, compile what reads their logs beside that.

    The compiler holds no lock of Python's for its quarter of a second.
    """
    from orchestrator.store.logs import LOG_FOLDER  # loads a compressor

    if any((location.state_folder / LOG_FOLDER).glob("*")):
        engine = importlib.import_module("orchestrator.core.detect.engine")
        threading.Thread(target=engine.Engine, args=((),), daemon=True).start()
    importlib.import_module(PARTS)


def _keep_memory_to_ourselves() -> None:
    """No core dump of ours, and nobody but root reads our memory: values of secrets are in it.

    What is started from here is not concerned: the kernel forgets it at exec.
    """
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def _make_folders(location: Location) -> None:
    """Ours alone, and so are those above that were not there yet: who may rename has what is in."""
    places = (
        (location.socket.parent, "of the daemon's socket", "XDG_RUNTIME_DIR"),
        (location.state_folder, "of the daemon's state", "XDG_STATE_HOME"),
    )
    before = os.umask(0o077)
    try:
        for folder, _, _ in places:
            folder.mkdir(parents=True, exist_ok=True)
    finally:
        os.umask(before)
    for folder, whose, variable in places:
        if folder.lstat().st_uid != os.getuid():
            raise DaemonError(
                f"The folder {folder} {whose} belongs to somebody else.",
                remedy=f"Set {variable} to a folder that is yours.",
            )
        folder.chmod(0o700)


@contextmanager
def _writing(location: Location) -> Iterator[None]:
    """A full disk, or a folder that may not be written, is said as such."""
    try:
        yield
    except OSError as exc:
        raise DaemonError(
            f"The daemon could not write to {exc.filename or location.state_folder}: "
            f"{exc.strerror}.",
            remedy="Free space there, or set XDG_STATE_HOME to a folder that you can write to.",
        ) from exc


@contextmanager
def _only_one(location: Location) -> Iterator[None]:
    """Hold the inventory's lock; it goes with our life, however that ends."""
    with _writing(location):
        fd = os.open(location.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as exc:
            raise DaemonError(
                f"A daemon for {location.inventory} is running already.",
                remedy="`orch daemon status` shows it.",
            ) from exc
        with _writing(location):
            write_note(location, os.getpid())
        yield
    finally:
        os.close(fd)
