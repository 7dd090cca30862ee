"""attach and exec become the program itself, with its terminal and its exit code."""

import os
import select
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.canned import CannedBackend, run_view, running
from tests.cli.conftest import Ran, spawn
from tests.conftest import TmuxCall

Orch = Callable[..., Ran]
DEADLINE_S = 30.0


def test_exec_passes_every_word_and_the_exit_code(project: Path) -> None:
    """Spaces, quotes and empty words arrive as they were typed; so does the code."""
    words = ["a b", "it's", "", "$HOME", '"', "--json"]
    script = 'printf "%s|" "$@"; exit 7'
    process = spawn("exec", "ct200", "--", "sh", "-c", script, "sh", *words)
    out, err = process.communicate(timeout=DEADLINE_S)
    assert (out.decode(), err) == ("|".join(words) + "|", b"")
    assert process.returncode == 7


def test_exec_on_an_unknown_target_names_those_there_are(orch: Orch, project: Path) -> None:
    """A target that is not in the inventory is 2."""
    ran = orch("exec", "ct201", "--", "true")
    assert ran.code == 2
    assert "no target ct201. It has ct200." in ran.err


def test_exec_with_a_bad_inventory_shows_its_faults(orch: Orch, project: Path) -> None:
    """Each fault is a line that an editor can jump to; nothing is run."""
    (project / "inventory.yaml").write_text("version: 1\nhots: {}\ntargets: {a: {}}\n")
    ran = orch("exec", "a", "--", "true")
    path = (project / "inventory.yaml").resolve()
    assert ran.code == 2
    assert ran.err.splitlines() == [
        f"{path}:2: hots: is not a key here; did you mean hosts?",
        f"{path}:3: targets.a.host: is required",
        "orch: the inventory has 2 faults; nothing was touched",
    ]


def test_attach_without_a_terminal_is_refused(orch: Orch, canned: CannedBackend) -> None:
    """A pipe cannot attach; the remedy is named."""
    ran = orch("attach", "@1")
    assert ran.code == 2
    assert "orch logs -f" in ran.err


def test_attach_to_a_run_whose_session_is_gone_says_that_it_lives(
    canned: CannedBackend,
) -> None:
    """tmux would only say that it finds no session."""
    canned.documents["run"] = running(detached=True)
    master, slave = os.openpty()
    done = subprocess.run(
        [sys.executable, "-m", "orchestrator", "attach", "@1"],
        stdin=slave,
        stdout=slave,
        stderr=subprocess.PIPE,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    os.close(slave)
    os.close(master)
    assert done.returncode == 1
    assert "dflash-2 is alive, and its tmux session dflash is gone." in done.stderr
    assert "orch logs -f dflash-2" in done.stderr


@pytest.mark.parametrize("with_daemon", [True, False], ids=["daemon", "no-daemon"])
def test_attach_lands_in_the_session_and_detaching_leaves_it(
    with_daemon: bool, request: pytest.FixtureRequest, project: Path, tmux: TmuxCall
) -> None:
    """The live tmux session is on the terminal; after detaching it is still there."""
    if with_daemon:
        canned: CannedBackend = request.getfixturevalue("canned")
        canned.documents["run"] = run_view()
    tmux("new-session", "-d", "-s", "dflash", "echo here-it-is; exec sleep 600")
    master, slave = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "orchestrator", "attach", "dflash"],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
        env={**os.environ, "TERM": "xterm-256color"},
    )
    os.close(slave)
    try:
        _read_until(master, b"here-it-is")
        tmux("detach-client", "-s", "dflash")
        _read_until(master, b"detached")
        assert process.wait(timeout=DEADLINE_S) == 0
        assert "dflash" in tmux("list-sessions").stdout
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(timeout=DEADLINE_S)
        os.close(master)


def _read_until(master: int, wanted: bytes) -> None:
    seen = b""
    deadline = time.monotonic() + DEADLINE_S
    while wanted not in seen:
        if time.monotonic() > deadline:
            pytest.fail(f"never saw {wanted!r} in {seen!r}")
        if select.select([master], [], [], 0.2)[0]:
            try:
                seen += os.read(master, 65_536)
            except OSError:
                pytest.fail(f"ended without {wanted!r}: {seen!r}")
