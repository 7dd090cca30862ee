"""Evidence of an attempt, from a real probe on this machine."""

import json
from pathlib import Path

from orchestrator.clock import SystemClock
from orchestrator.core.events import KernelLine
from orchestrator.observe.evidence import LOG_LINES, collect
from orchestrator.observe.follow import follow
from tests.observe.conftest import Launcher


async def test_what_is_left_of_a_run_is_kept_with_its_threads(
    program: Launcher, tmp_path: Path
) -> None:
    """Processes that live, the last lines, the kernel's word; whatever py-spy can tell."""
    launched = program("import time; print('up'); time.sleep(600)")
    await launched.start()
    follower = await follow(launched.link, launched.run, launched.attempt_dir, clock=SystemClock())
    async for _ in follower:
        break
    await follower.close()
    file = tmp_path / "evidence" / "talk-1.1.json"
    log = b"".join(b"line %d\n" % number for number in range(5000))
    await collect(
        launched.link,
        file,
        run=launched.run,
        attempt_dir=launched.attempt_dir,
        log=log,
        kernel=[KernelLine(line="NVRM: Xid 79", at=1.0)],
    )
    await launched.link.call(
        "end",
        run=launched.run.id,
        uid=launched.run.uid,
        session="talk",
        socket=None,
        attempt_dir=launched.attempt_dir,
        grace_s=0.0,
    )
    kept = json.loads(file.read_text())
    (program_kept,) = (
        one for one in kept["dump"]["processes"] if "time.sleep(600)" in one["command"]
    )
    assert program_kept["threads"][0]["tid"] == program_kept["pid"]
    assert program_kept["state"] == "S"
    assert kept["kernel"] == [{"at": 1.0, "line": "NVRM: Xid 79"}]
    assert (len(kept["log"]), kept["log"][-1]) == (LOG_LINES, "line 4999")
    assert file.parent.stat().st_mode & 0o077 == 0
