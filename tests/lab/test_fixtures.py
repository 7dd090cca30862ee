"""The shared fixtures keep what tests do apart from the user's own."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from tests.conftest import TmuxCall, XdgFolders


def test_tmux_has_sockets_of_its_own(tmux: TmuxCall, tmux_sockets: Path) -> None:
    """A server started through the fixture listens in the test folder, not in the user's."""
    tmux("new-session", "-d", "-s", "mine", "sleep 600")
    (path,) = tmux("display-message", "-p", "-t", "mine", "#{socket_path}").stdout.split()
    assert Path(path).is_relative_to(tmux_sockets)


def test_home_folders_are_short_and_the_tests_own(xdg: XdgFolders) -> None:
    """A socket fits below the runtime folder, and programs are pointed there."""
    assert os.environ["XDG_RUNTIME_DIR"] == str(xdg.runtime)
    assert os.environ["HOME"] == str(xdg.home)
    path = xdg.runtime / ("x" * 60)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
    assert len(str(path)) < 100
    assert {folder.stat().st_mode & 0o777 for folder in (xdg.state, xdg.config)} == {0o700}
