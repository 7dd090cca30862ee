"""`orch attach` on a real terminal: through ssh and pct into a live tmux session, and out again."""

import os
import pty
import select
import subprocess
import time

import pytest

from orchestrator.core.model import Target
from orchestrator.core.runtimes import attach_argv
from tests.lab.declared import declared
from tests.lab.lab import Lab

DEADLINE_S = 30.0


@pytest.mark.lab
@pytest.mark.xdist_group("lab-ssh")
@pytest.mark.parametrize("runtime", ["pct", "lxc", "none"])
@pytest.mark.parametrize("term", ["xterm-256color", "xterm-nobody-knows"])
def test_attach_and_detach(lab: Lab, runtime: str, term: str) -> None:
    """It lands in the session of exactly this name, and detaching leaves the session alone."""
    inside = lab.host if runtime == "none" else lab["200"]
    for session, says in (("dflash", "right"), ("dflash2", "wrong")):
        script = f"echo the {says} session; exec sleep 600"
        inside.run(["tmux", "new-session", "-d", "-s", session, script])
    host = declared(lab)
    target = Target(name="t", host=host, runtime=runtime, container="200")
    argv = attach_argv(target, "dflash", term=term)
    terminal, far_end = pty.openpty()
    child = subprocess.Popen(
        argv,
        stdin=far_end,
        stdout=far_end,
        stderr=far_end,
        start_new_session=True,
        env={**os.environ, "TERM": term},
    )
    os.close(far_end)
    try:
        assert b"the right session" in read_until(terminal, b"session")
        # While tmux still asks the terminal what it is, it does not listen to keys.
        read_until(terminal, b"detached", press=b"\x02d")
        assert child.wait(timeout=DEADLINE_S) == 0
    finally:
        child.kill()
        child.wait()
        os.close(terminal)
    left = inside.run(["tmux", "list-sessions", "-F", "#{session_name}"])
    assert left.stdout.split() == ["dflash", "dflash2"]


def read_until(terminal: int, word: bytes, *, press: bytes = b"") -> bytes:
    """What the terminal shows until a word is in it; `press` is typed once a second till then."""
    shown = b""
    deadline = time.monotonic() + DEADLINE_S
    while word not in shown:
        assert time.monotonic() < deadline, f"{word!r} did not come: {shown!r}"
        if press:
            os.write(terminal, press)
        if select.select([terminal], [], [], 1.0)[0]:
            try:
                shown += os.read(terminal, 65536)
            except OSError as exc:  # the far end is closed
                raise AssertionError(f"{word!r} did not come: {shown!r}") from exc
    return shown
