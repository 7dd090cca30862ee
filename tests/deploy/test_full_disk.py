"""A disk that fills while a release arrives, on a real small file system."""

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from orchestrator.core.errors import DeployError
from orchestrator.core.model import Job
from orchestrator.deploy import plan as plans
from orchestrator.deploy import release
from orchestrator.deploy.bundle import collect
from orchestrator.deploy.hashes import HashCache

from .caller import NearCaller
from .whole import leftovers, tree_of

pytestmark = [pytest.mark.lab, pytest.mark.xdist_group("lab-link")]


@pytest.fixture
def workdir(tmp_path: Path) -> Iterator[Path]:
    """A working folder on a file system of 4 MiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "orch-test", disk],
        check=False,
        capture_output=True,
        text=True,
    )
    if made.returncode != 0:
        if os.environ.get("CI") == "true":
            pytest.fail(f"CI must be able to mount a tmpfs: {made.stderr}")
        pytest.skip(f"no tmpfs can be mounted here: {made.stderr}")
    yield disk / "work"
    subprocess.run(["umount", disk], check=True)


async def test_a_disk_that_fills_leaves_the_old_release_and_no_rest(
    caller: NearCaller, job: Job, package: Path, workdir: Path
) -> None:
    """The sentence names the disk and the remedy; with room again the same deploy goes through."""
    cache = workdir.parent.parent / "hashes.json"
    bundle = collect(job, cache=HashCache(cache), now=time.time())
    plan = await plans.plan(caller, job, bundle)
    first = await release.deploy(caller, job, bundle, plan, lambda _: None)
    before = tree_of(first.path)

    (package / "weights.bin").write_bytes(os.urandom(6_000_000))
    bundle = collect(job, cache=HashCache(cache), now=time.time())
    plan = await plans.plan(caller, job, bundle)
    with pytest.raises(DeployError, match=r"No space left.*orch prune"):
        await release.deploy(caller, job, bundle, plan, lambda _: None)
    assert os.readlink(workdir / "current") == f"releases/{first.digest}"
    assert tree_of(workdir / "current" / "trainer") == before
    assert leftovers(workdir) == []

    subprocess.run(["mount", "-o", "remount,size=32m", workdir.parent], check=True)
    plan = await plans.plan(caller, job, bundle)
    done = await release.deploy(caller, job, bundle, plan, lambda _: None)
    assert tree_of(done.path) == tree_of(package)


async def test_preflight_on_a_full_disk_says_to_free_some(
    caller: NearCaller, job: Job, workdir: Path
) -> None:
    """Rights are not what is missing there."""
    (workdir.parent / "full").write_bytes(bytes(3 << 20))
    with suppress(OSError), (workdir.parent / "fuller").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    workdir.mkdir()
    asked: dict[str, Any] = {
        "workdir": {"path": str(workdir)},
        "python": {"python": "python3", "env": {}},
    }
    asked["python"] |= {"path_first": [], "packages": []}
    answer = await caller.call("preflight", timeout_s=60, checks=asked)
    found = next(one for one in answer["checks"] if one["name"] == "workdir")
    assert "No space left" in found["text"]
    assert found["remedy"].startswith("Free some space")
