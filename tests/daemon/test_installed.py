"""Whether a daemon knows that it was upgraded below its feet."""

import os
from pathlib import Path

from orchestrator.daemon.installed import LOOK_EVERY_S, InstalledCode
from orchestrator.testing import ManualClock


async def test_a_changed_file_makes_the_daemon_outdated(tmp_path: Path) -> None:
    """Newer, older, added or removed: the daemon's own code is another one than that."""
    file = tmp_path / "part" / "code.py"
    file.parent.mkdir()
    file.write_text("A = 1\n")
    clock = ManualClock()
    code = InstalledCode(tmp_path, clock)
    await clock.advance(LOOK_EVERY_S)
    assert not code.outdated()
    os.utime(file, (1, 1))
    assert not code.outdated()  # it looks seldom
    await clock.advance(LOOK_EVERY_S)
    assert code.outdated()
