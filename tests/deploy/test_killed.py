"""A deploy that is killed at any instant leaves the old release or the new one, whole."""

import os
import random
import time
from pathlib import Path

import pytest

from orchestrator.core.model import Job
from orchestrator.deploy.bundle import collect
from orchestrator.deploy.hashes import HashCache
from orchestrator.probe import release
from orchestrator.probe.claims import give_up
from orchestrator.probe.workdir import Workdir
from tests.deploy.victim import Victims
from tests.deploy.whole import Tree, leftovers, send, tree_of

KILLS = 100


def current_tree(workdir: Path) -> Tree | None:
    """What a run would find now; None before the first release."""
    if not os.path.lexists(workdir / "current"):
        return None
    tree = tree_of(workdir / "current" / "trainer", without=(b"checkpoints",))
    assert os.readlink(workdir / "current" / "trainer" / "checkpoints")
    return tree


def edit(package: Path, number: int) -> None:
    """Another version: one file changed, one new, one gone, one large."""
    (package / "model.py").write_text(f"LAYERS = {number}\n" * 400)
    (package / f"new{number}.py").write_text(f"x = {number}\n")
    (package / f"new{number - 2}.py").unlink(missing_ok=True)
    (package / "weights.bin").write_bytes(random.Random(number).randbytes(300_000))


@pytest.mark.slow
@pytest.mark.parametrize("twin", ["", "yes"])
async def test_a_hundred_kills_leave_the_old_release_or_the_new_one_whole(
    package: Path, workdir: Path, tmp_path: Path, twin: str
) -> None:
    """After each kill `current` is what was there or what was sent; the next deploy tidies up."""
    for number in range(40):
        (package / f"m{number}.py").write_text(f"x = {number}\n" * 100)
    order = {
        "package": str(package),
        "workdir": str(workdir),
        "cache": str(tmp_path / "hashes.json"),
        "twin": twin,
    }
    victims = await Victims.start()
    try:
        assert await victims.deploy(order, None)
        edit(package, -1)
        begun = time.monotonic()
        assert await victims.deploy(order, None)
        takes_s = time.monotonic() - begun
        before = current_tree(workdir)
        assert before == tree_of(package)
        old = new = 0
        for number in range(KILLS):
            edit(package, number)
            wanted = tree_of(package)
            done = await victims.deploy(order, random.uniform(0, takes_s))
            found = current_tree(workdir)
            assert found == wanted or (found == before and not done)
            old, new = (old, new + 1) if found == wanted else (old + 1, new)
            before = found
        edit(package, KILLS)
        assert await victims.deploy(order, None)
        assert current_tree(workdir) == tree_of(package)
    finally:
        await victims.close()
    assert old > 5, f"the kills came too late to tell anything: {new} of {KILLS} had ended"
    assert leftovers(workdir) == []


async def test_what_a_killed_transfer_had_sent_is_not_sent_again(
    job: Job, workdir: Path, tmp_path: Path
) -> None:
    """The blobs that arrived whole are found by the next deploy of the same release."""
    bundle = collect(job, cache=HashCache(tmp_path / "hashes.json"), now=time.time())
    args = {
        "workdir": job.workdir,
        "digest": bundle.digest,
        "manifest": bundle.told_whole(),
        "deploy": 1,
    }
    send(bundle, args)
    torn = next(iter((workdir / "releases").glob(".incoming-*/blobs/*/*")))
    torn.write_bytes(torn.read_bytes()[:-1])
    missing = release.offer(args, lambda _: None)["missing"]
    assert missing == [torn.name]
    give_up(Workdir(job.workdir), bundle.digest, 1)
