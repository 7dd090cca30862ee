"""Commands on this machine: what they inherit, and that nothing of them stays."""

import asyncio
import os
from pathlib import Path

import pytest

from orchestrator.core.command import Command
from orchestrator.transport.local import LocalTransport, inherited

DEADLINE_S = 20.0


async def test_secrets_of_the_daemon_are_not_inherited(monkeypatch: pytest.MonkeyPatch) -> None:
    """A local command sees what a login needs, and no variable that may hold a secret."""
    monkeypatch.setenv("ORCH_WEBHOOK_SECRET", "whsec_x")
    monkeypatch.setenv("HF_TOKEN", "hf_x")
    monkeypatch.setenv("PIP_INDEX_URL", "https://pypi.example/simple")
    done = await LocalTransport("here").run(Command(argv=("env",)))
    names = {line.partition("=")[0] for line in done.stdout.decode().splitlines()}
    assert {"HOME", "PATH", "PIP_INDEX_URL"} <= names
    assert not {"ORCH_WEBHOOK_SECRET", "HF_TOKEN"} & names


def test_what_is_inherited_is_a_list_of_names() -> None:
    """Unknown variables stay out, whatever they are called."""
    environ = {"PATH": "/bin", "LC_ALL": "C", "XDG_RUNTIME_DIR": "/run/1", "MY_KEY": "x"}
    assert inherited(environ) == {"PATH": "/bin", "LC_ALL": "C", "XDG_RUNTIME_DIR": "/run/1"}


async def test_closing_ends_the_whole_group(tmp_path: Path) -> None:
    """A command that ignores the end of its input is ended with its children."""
    pids = tmp_path / "pids"
    script = f"sleep 600 & echo $! $$ > {pids}.part; mv {pids}.part {pids}; wait"
    channel = await LocalTransport("here").open(Command(argv=("sh", "-c", script)))
    await _until(pids.exists)
    children = [int(pid) for pid in pids.read_text().split()]
    await channel.close()
    await _until(lambda: not any(_lives(pid) for pid in children))


async def test_a_grandchild_may_keep_the_pipes() -> None:
    """A channel closes even where a program in the background holds its stdout open."""
    script = "setsid sleep 600 & echo $!"
    channel = await LocalTransport("here").open(Command(argv=("sh", "-c", script)))
    sleeper = int(await channel.read())
    try:
        async with asyncio.timeout(DEADLINE_S):
            await channel.close()
        assert _lives(sleeper)
    finally:
        os.kill(sleeper, 9)


def _lives(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in ("Z", "X")


async def _until(true: object) -> None:
    assert callable(true)
    async with asyncio.timeout(DEADLINE_S):
        while not true():
            await asyncio.sleep(0.02)
