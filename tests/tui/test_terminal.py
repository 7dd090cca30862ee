"""The real dashboard in a real tmux, typed at with send-keys."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from orchestrator.api.location import locate
from tests.cli.canned import CannedDaemon
from tests.conftest import TmuxCall, XdgFolders
from tests.tui.test_actions import StayingBackend

DEADLINE_S = 40.0


def shown(tmux: TmuxCall, words: str) -> str:
    """The pane, as soon as these words are in it."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        pane = tmux("capture-pane", "-p", "-t", "d").stdout
        if words in pane:
            return pane
        assert time.monotonic() < deadline, f"{words!r} never came:\n{pane}"
        time.sleep(0.1)


@pytest.mark.tmux
def test_a_person_looks_at_a_run_and_leaves(
    tmux: TmuxCall, short_folder: Path, xdg: XdgFolders
) -> None:
    """At 80x24: the fleet, Enter, the log; it finds a word; resized it still is whole; q quits."""
    inventory = short_folder / "inventory.yaml"
    inventory.write_text("version: 1\n")
    location = locate(inventory, os.environ)
    with CannedDaemon(location, StayingBackend(location)):
        argv = f"{sys.executable} -m tui --config {inventory}; echo left with $?; sleep 60"
        tmux("new-session", "-d", "-s", "d", "-x", "80", "-y", "24", "-c", os.getcwd(), argv)
        shown(tmux, "dflash-3")
        tmux("send-keys", "-t", "d", "Enter")
        shown(tmux, "step 1 loss 9.1")
        tmux("send-keys", "-t", "d", "/", "title")
        tmux("send-keys", "-t", "d", "Enter")
        assert "clear" in shown(tmux, "no match above")
        tmux("resize-window", "-t", "d", "-x", "140", "-y", "40")
        shown(tmux, "q quit")
        tmux("send-keys", "-t", "d", "q")
        shown(tmux, "left with 0")


def test_without_a_terminal_it_says_what_needs_none(
    short_folder: Path, xdg: XdgFolders, capfd: pytest.CaptureFixture[str]
) -> None:
    """In a pipe the dashboard does not start, and names the command to use instead."""
    from tui.__main__ import main

    inventory = short_folder / "inventory.yaml"
    inventory.write_text("version: 1\n")
    assert main(["--config", str(inventory)]) == 2
    assert "`orch status` needs none." in capfd.readouterr().err


def test_a_replay_that_is_none_is_refused(
    short_folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A file that is no replay, or is not there, is named with the reason."""
    from tui.__main__ import main

    file = short_folder / "x.jsonl"
    file.write_text("{}\n")
    assert main(["--replay", str(file)]) == 2
    assert main(["--replay", str(short_folder / "none")]) == 2
    said = capfd.readouterr().err
    assert "its first line is no `begin`" in said
    assert "No such file" in said


@pytest.mark.tmux
def test_it_ends_with_its_terminal(short_folder: Path, xdg: XdgFolders) -> None:
    """A terminal that goes away without a signal takes the dashboard with it: nothing spins on."""
    inventory = short_folder / "inventory.yaml"
    inventory.write_text("version: 1\n")
    location = locate(inventory, os.environ)
    ours, theirs = os.openpty()
    with CannedDaemon(location, StayingBackend(location)):
        # In a session without a controlling terminal, no hang-up is ever signalled.
        words = [sys.executable, "-m", "tui", "--config", str(inventory)]
        dashboard = subprocess.Popen(
            words, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
        )
        os.close(theirs)
        try:
            seen = b""
            deadline = time.monotonic() + DEADLINE_S
            while b"dflash" not in seen:
                assert time.monotonic() < deadline, seen
                seen += os.read(ours, 65536)
            os.close(ours)
            ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN  # as under nohup
            ends = {-signal.SIGHUP} if not ignored else {128 + signal.SIGHUP}
            assert dashboard.wait(timeout=DEADLINE_S) in ends
        finally:
            dashboard.kill()
            dashboard.wait()
