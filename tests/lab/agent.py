"""An ssh-agent of one test's own, with one key in it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

DEADLINE_S = 30.0


@contextmanager
def ssh_agent(key: Path, socket: Path, environment: pytest.MonkeyPatch) -> Iterator[Path]:
    """SSH_AUTH_SOCK is the agent at SOCKET while inside."""
    child = subprocess.Popen(["ssh-agent", "-D", "-a", socket], stdout=subprocess.DEVNULL)
    environment.setenv("SSH_AUTH_SOCK", str(socket))
    for _ in range(200):
        added = subprocess.run(["ssh-add", "-q", key], capture_output=True, check=False)
        if added.returncode == 0:
            break
        child.poll()
    else:
        raise TimeoutError(f"the ssh-agent at {socket} took no key")
    yield socket
    child.terminate()
    child.wait(timeout=DEADLINE_S)
