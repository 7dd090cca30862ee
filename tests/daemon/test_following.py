"""`follow`: a reader of a log that cannot be read to its end neither spins nor waits for ever."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from orchestrator.daemon.following import _Cursor
from orchestrator.daemon.parts import Parts
from orchestrator.store.logs import Logs


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[tuple[Logs, Parts]]:
    """A log of 70 bytes, and what `follow` asks of the daemon's parts."""
    logs = Logs(tmp_path / "logs")
    logs.append("dflash-1", 1, 0, b"step 1\n" * 10, 0.0)
    parts: Any = SimpleNamespace(store=SimpleNamespace(logs=logs))
    yield logs, cast(Parts, parts)
    logs.close_all()


def test_a_log_is_read_to_its_end(kept: tuple[Logs, Parts]) -> None:
    """The first look finds all, and then there is no more."""
    _, parts = kept
    cursor = _Cursor(attempt=1, offset=0)
    found = cursor.read(parts, "dflash-1", 1)
    assert "".join(part["text"] for part in found) == "step 1\n" * 10
    assert cursor.at_end(parts, "dflash-1", 1, found)


def test_a_log_whose_folder_was_removed_has_no_more(
    kept: tuple[Logs, Parts], tmp_path: Path
) -> None:
    """The writer still knows of bytes that nobody can read: the daemon looked for them for ever."""
    logs, parts = kept
    shutil.rmtree(tmp_path / "logs")
    cursor = _Cursor(attempt=1, offset=0)
    found = cursor.read(parts, "dflash-1", 1)
    assert found == []
    assert logs.end("dflash-1", 1) == 70
    assert cursor.at_end(parts, "dflash-1", 1, found)
