"""What did not arrive as it was sent, or is not what it was, becomes no release."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from orchestrator.core.errors import DeployError
from orchestrator.core.model import Job
from orchestrator.probe import manifest as wire
from orchestrator.probe.errors import OpError
from orchestrator.probe.workdir import Workdir

from .caller import NearCaller
from .test_release import deployed
from .whole import tree_of


class Flipping(NearCaller):
    """A way on which the last byte of all that is sent is another one."""

    async def call(self, op: str, *, raw: bytes | None = None, **args: Any) -> Any:
        """Do the op with what came."""
        if raw is not None:
            raw = raw[:-1] + bytes([raw[-1] ^ 1])
        return await super().call(op, raw=raw, **args)


@pytest.mark.parametrize("size", [100, 600_000], ids=["with the commit", "in pieces"])
async def test_bytes_that_changed_on_the_way_become_no_release(
    caller: NearCaller, job: Job, package: Path, workdir: Path, size: int
) -> None:
    """The hash is taken on the target: the old release stays the current one, whole."""
    before, _ = await deployed(caller, job)
    kept = tree_of(before.path)
    (package / "zz.bin").write_bytes(os.urandom(size))
    with pytest.raises(DeployError, match="did not arrive as it was sent"):
        await deployed(Flipping(), job)
    assert os.readlink(workdir / "current") == f"releases/{before.digest}"
    assert tree_of(before.path) == kept
    after, _ = await deployed(caller, job)
    assert tree_of(after.path) == tree_of(package)


async def test_a_file_that_is_taken_from_another_release_is_hashed(
    caller: NearCaller, job: Job, package: Path, workdir: Path
) -> None:
    """One that was written into and bears its old time is not copied into the next release."""
    before, _ = await deployed(caller, job)
    victim = Path(before.path) / "model.py"
    status = victim.stat()
    content = victim.read_bytes()
    with victim.open("r+b") as file:
        file.write(content[::-1])
    os.utime(victim, ns=(status.st_atime_ns, status.st_mtime_ns))
    (package / "model.py").chmod(0o755)
    with pytest.raises(DeployError, match="did not arrive as it was sent"):
        await deployed(caller, job)
    assert os.readlink(workdir / "current") == f"releases/{before.digest}"


@pytest.mark.parametrize("path", ["../x", "/etc/x", "trainer/../../x", "trainer//x", "a\0b", ""])
def test_a_path_that_leaves_the_release_is_no_manifest(path: str) -> None:
    """Whoever told it: nothing is written outside of the folder of a release."""
    line = wire.line_of(wire.Entry(path, wire.FILE, 0o644, 1, wire.EMPTY_SHA256))
    with pytest.raises(wire.ManifestError, match="leaves the release"):
        wire.entries_of([line])


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", "/etc", ".incoming-a", ".lock"])
def test_a_name_that_leaves_the_releases_is_no_release(workdir: Path, name: str) -> None:
    """Nothing is read, switched to or removed by it, nor what is only gathered or ours."""
    with pytest.raises(OpError, match="no name of a release"):
        Workdir(str(workdir)).release(name)


LOOKS = """
import os, sys
print("looks", flush=True)
while not os.path.exists(sys.argv[1] + "/over"):
    try:
        os.readlink(sys.argv[1] + "/current")
    except FileNotFoundError:
        print("missed", flush=True)
        break
"""


def test_there_is_a_current_release_at_every_instant(workdir: Path) -> None:
    """However often it is switched, whoever looks finds one of them."""
    (workdir / "releases").mkdir(parents=True)
    there = Workdir(str(workdir))
    there.switch("first")
    words = [sys.executable, "-c", LOOKS, str(workdir)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as looking:
        assert looking.stdout is not None
        assert looking.stdout.readline() == "looks\n"
        for number in range(200):
            there.switch(f"release-{number}")
        (workdir / "over").touch()
        assert looking.stdout.read() == ""
