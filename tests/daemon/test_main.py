"""What a daemon begins with, before it serves anybody."""

import os
from pathlib import Path

import pytest

from orchestrator.api.location import locate
from orchestrator.core.errors import DaemonError
from orchestrator.daemon.main import _make_folders, _only_one
from tests.conftest import XdgFolders


def test_an_inventory_has_one_lock_that_nobody_else_can_hold(
    tmp_path: Path, xdg: XdgFolders
) -> None:
    """Whoever may open the file can hold its lock, and keep every daemon from starting."""
    location = locate(tmp_path / "inventory.yaml", os.environ)
    before = os.umask(0)
    try:
        _make_folders(location)
        with _only_one(location):
            assert location.lock.stat().st_mode & 0o777 == 0o600
            with pytest.raises(DaemonError, match="is running already"), _only_one(location):
                pytest.fail("two have it")
        with _only_one(location):
            pass
    finally:
        os.umask(before)
