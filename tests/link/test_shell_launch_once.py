"""A launch by the plain shell happens once, however often it is asked for."""

import asyncio
from pathlib import Path

from orchestrator.core.adhoc import find_target
from orchestrator.link.shell_ops import ShellOps
from orchestrator.transport.local import LocalTransport
from tests.conftest import TmuxCall

WITHIN_S = 30.0


async def test_a_launch_after_the_end_is_still_the_same(tmp_path: Path, tmux: TmuxCall) -> None:
    """A daemon that lost the answer asks again, and the attempt is not run a second time."""
    ops = ShellOps(find_target("local", None, ()), LocalTransport("local"))
    run_dir = tmp_path / "runs" / "a-1.u"
    spec = {
        "run": "a-1",
        "uid": "u",
        "attempt": 1,
        "run_dir": str(run_dir),
        "attempt_dir": str(run_dir / "attempt-1"),
        "session": "a",
        "argv": ["sh", "-c", "echo started >> starts"],
        "cwd": str(tmp_path),
        "env": {},
    }
    first = await ops.do("launch", spec)
    async with asyncio.timeout(WITHIN_S):
        while not (run_dir / "attempt-1" / "exit.json").exists():
            await asyncio.sleep(0.05)
    again = await ops.do("launch", spec)
    assert (first["already"], again["already"]) == (False, True)
    assert again["pid"] == first["pid"]
    assert (tmp_path / "starts").read_text() == "started\n"
    assert not (run_dir / "attempt-1" / "spec").exists()
