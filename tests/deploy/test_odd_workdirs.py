"""Working folders in which somebody else was at work, before a deploy or in the middle of it."""

import dataclasses
import os
import shutil
import time
from pathlib import Path

import pytest

from orchestrator.core.errors import DeployError
from orchestrator.core.model import Job
from orchestrator.deploy import plan as plans
from orchestrator.deploy import release
from orchestrator.deploy.bundle import Bundle, collect
from orchestrator.deploy.hashes import HashCache
from orchestrator.deploy.plan import DeployPlan

from .caller import NearCaller
from .whole import leftovers, tree_of


async def planned(caller: NearCaller, job: Job) -> tuple[Bundle, DeployPlan]:
    """The bundle as it is now, and what deploying it would do."""
    cache = Path(job.workdir).parent.parent / "hashes.json"
    bundle = collect(job, cache=HashCache(cache), now=time.time())
    return bundle, await plans.plan(caller, job, bundle)


async def deployed(caller: NearCaller, job: Job) -> Path:
    """Where the release lies."""
    bundle, plan = await planned(caller, job)
    return Path((await release.deploy(caller, job, bundle, plan, lambda _: None)).path)


async def test_strange_things_among_the_releases_are_in_nobodys_way(
    caller: NearCaller, job: Job, package: Path, workdir: Path
) -> None:
    """A link to nothing ended each deploy; it, a file and an empty folder go as leftovers do."""
    await deployed(caller, job)
    (workdir / "releases" / "old").symlink_to("nowhere")
    (workdir / "releases" / "notes.txt").write_text("mine")
    (workdir / "releases" / "empty").mkdir()
    (package / "model.py").write_text("LAYERS = 4\n")
    assert tree_of(await deployed(caller, job)) == tree_of(package)
    found = await release.releases(caller, job)
    assert len(found["releases"]) == 2
    await release.prune(caller, dataclasses.replace(job, keep=1))
    assert leftovers(workdir) == []


async def test_a_release_that_goes_after_the_plan_is_sent_again(
    caller: NearCaller, job: Job, package: Path, workdir: Path
) -> None:
    """Another daemon prunes what this deploy meant to take a file of: refused, and then sent."""
    (package / "weights.bin").write_bytes(os.urandom(3_000_000))
    first = await deployed(caller, job)
    (package / "weights.bin").rename(package / "moved.bin")
    (package / "moved.bin").chmod(0o600)
    kept = (package / "moved.bin").read_bytes()
    (package / "moved.bin").unlink()
    second = await deployed(caller, job)
    (package / "again.bin").write_bytes(kept)
    bundle, plan = await planned(caller, job)
    assert plan.bytes_to_send < 1_000_000
    shutil.rmtree(first.parent)
    with pytest.raises(DeployError):
        await release.deploy(caller, job, bundle, plan, lambda _: None)
    assert os.readlink(workdir / "current") == f"releases/{second.parent.name}"
    assert tree_of(await deployed(caller, job)) == tree_of(package)


async def test_a_current_release_that_was_removed_is_made_anew(
    caller: NearCaller, job: Job, package: Path, workdir: Path
) -> None:
    """`current` leads to nothing: the same deploy and another one both mend it."""
    first = await deployed(caller, job)
    shutil.rmtree(first.parent)
    assert tree_of(await deployed(caller, job)) == tree_of(package)
    shutil.rmtree(first.parent)
    (package / "model.py").write_text("LAYERS = 4\n")
    assert tree_of(await deployed(caller, job)) == tree_of(package)
    assert (workdir / "current").resolve().is_dir()
