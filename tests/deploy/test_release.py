"""Deploys on a real file system: what arrives, what is sent again, what is switched."""

import asyncio
import dataclasses
import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from orchestrator.core.errors import DeployError, UsageError
from orchestrator.core.model import Job, Release
from orchestrator.deploy import plan as plans
from orchestrator.deploy import release
from orchestrator.deploy.bundle import Bundle, collect
from orchestrator.deploy.hashes import HashCache
from orchestrator.deploy.plan import DeployPlan
from orchestrator.deploy.release import DeployProgress
from orchestrator.probe import release as far_side
from orchestrator.probe import spare
from orchestrator.probe.calls import OP_MODULES
from orchestrator.probe.workdir import Workdir

from .caller import NearCaller
from .whole import leftovers, tree_of


def bundled(job: Job) -> Bundle:
    """The job's bundle as it is now."""
    cache = Path(job.workdir).parent.parent / "hashes.json"
    return collect(job, cache=HashCache(cache), now=time.time())


async def deployed(caller: NearCaller, job: Job) -> tuple[Release, DeployPlan]:
    """Plan and deploy what is there now."""
    bundle = bundled(job)
    plan = await plans.plan(caller, job, bundle)
    return await release.deploy(caller, job, bundle, plan, lambda _: None), plan


async def test_a_first_deploy_brings_the_whole_tree(
    caller: NearCaller, job: Job, package: Path, workdir: Path
) -> None:
    """The release lies under its digest and the package's name, and `current` points at it."""
    done, plan = await deployed(caller, job)
    assert Path(done.path) == workdir / "releases" / done.digest / "trainer"
    assert tree_of(done.path) == tree_of(package)
    assert os.readlink(workdir / "current") == f"releases/{done.digest}"
    assert plan.current is None
    assert plan.to_json() | {"release": "", "paths": []} == {
        "job": "dflash",
        "target": "local",
        "release": "",
        "current": None,
        "exists": False,
        "files": 3,
        "files_to_send": 3,
        "files_unchanged": 0,
        "bytes_to_send": 13 + 2200 + 10,
        "paths": [],
        "setup": False,
    }


async def test_odd_names_modes_and_links_survive(
    caller: NearCaller, job: Job, package: Path
) -> None:
    """Blanks, quotes, newlines, bytes that are no UTF-8, empty files, modes and links."""
    root = os.fsencode(package)
    for name in (
        b"a b",
        b"it's",
        b'say "no"',
        b"two\nlines",
        b"\xff\xfe",
        b"-rf",
        b"$HOME",
        b"\\n",
    ):
        with open(root + b"/" + name, "wb") as file:
            file.write(name)
    (package / "empty").touch()
    (package / "nothing here").mkdir()
    (package / "tool.sh").write_text("#!/bin/sh\n")
    (package / "tool.sh").chmod(0o755)
    (package / "private").write_text("x")
    (package / "private").chmod(0o600)
    (package / "same-a").write_text("same")
    (package / "same-b").write_text("same")
    os.symlink(b"two\nlines", root + b"/li nk\xff")
    os.symlink("configs", package / "to-folder")
    os.symlink("not-there", package / "dangling")
    done, _ = await deployed(caller, job)
    assert tree_of(done.path) == tree_of(package)


async def test_only_what_changed_is_sent_again(caller: NearCaller, job: Job, package: Path) -> None:
    """After a one-line change one file travels; the others share their blocks with the old ones."""
    (package / "weights.bin").write_bytes(os.urandom(300_000))
    first, _ = await deployed(caller, job)
    (package / "model.py").write_text("LAYERS = 4\n")
    caller.sent_bytes = 0
    second, plan = await deployed(caller, job)
    assert plan.paths == ("trainer/model.py",)
    assert plan.bytes_to_send == 11
    assert caller.sent_bytes < 300
    assert second.digest != first.digest
    assert tree_of(second.path) == tree_of(package)
    assert Path(first.path, "model.py").read_text().startswith("LAYERS = 3")
    old, new = (os.stat(Path(item.path, "weights.bin")) for item in (first, second))
    assert old.st_ino == new.st_ino or old.st_blocks == new.st_blocks


async def test_two_files_of_one_content_never_share_an_inode(
    caller: NearCaller, job: Job, package: Path
) -> None:
    """A program that writes into one must not change the other."""
    for name in ("a", "b"):
        (package / name).write_text("the same")
    done, _ = await deployed(caller, job)
    (package / "c").write_text("the same")
    done, plan = await deployed(caller, job)
    assert plan.bytes_to_send == 0
    assert len({os.stat(Path(done.path, name)).st_ino for name in "abc"}) == 3


async def test_deploying_the_same_again_changes_nothing(
    caller: NearCaller, job: Job, workdir: Path
) -> None:
    """The plan says so, and nothing is sent."""
    first, _ = await deployed(caller, job)
    caller.sent_bytes = 0
    again, plan = await deployed(caller, job)
    assert plan.changes_nothing
    assert again == first
    assert caller.sent_bytes == 0
    assert sorted(os.listdir(workdir / "releases")) == [".lock", first.digest]


async def test_a_plan_changes_nothing_on_the_target(
    caller: NearCaller, job: Job, workdir: Path
) -> None:
    """A dry run leaves no trace."""
    await plans.plan(caller, job, bundled(job))
    assert not workdir.exists()


async def test_a_file_that_a_program_wrote_into_is_not_trusted(
    caller: NearCaller, job: Job, package: Path
) -> None:
    """What an old run changed in its release is sent again, and does not reach the new release."""
    first, _ = await deployed(caller, job)
    with open(Path(first.path, "model.py"), "a") as file:
        file.write("BROKEN\n")
    (package / "other.py").write_text("x = 1\n")
    second, plan = await deployed(caller, job)
    assert "trainer/model.py" in plan.paths
    assert tree_of(second.path) == tree_of(package)


async def test_a_look_ahead_counts_for_one_offer_alone(
    caller: NearCaller, job: Job, package: Path
) -> None:
    """A plan that follows another one sees what a program wrote in between."""
    first, _ = await deployed(caller, job)
    (package / "other.py").write_text("x = 1\n")
    await plans.look_ahead(caller, job)
    assert (await plans.plan(caller, job, bundled(job))).paths == ("trainer/other.py",)
    with open(Path(first.path, "model.py"), "a") as file:
        file.write("BROKEN\n")
    second, plan = await deployed(caller, job)
    assert "trainer/model.py" in plan.paths
    assert tree_of(second.path) == tree_of(package)


async def test_a_release_that_was_changed_is_repaired_by_its_deploy(
    caller: NearCaller, job: Job, package: Path
) -> None:
    """Deploying the same code again brings back what was deployed."""
    first, _ = await deployed(caller, job)
    Path(first.path, "model.py").write_text("BROKEN\n")
    Path(first.path, "__main__.py").unlink()
    Path(first.path, "__main__.py").mkdir()
    again, plan = await deployed(caller, job)
    assert not plan.changes_nothing
    assert again.digest == first.digest
    assert tree_of(again.path) == tree_of(package)


async def test_many_pieces_of_large_and_small_files_arrive(
    caller: NearCaller, job: Job, package: Path
) -> None:
    """Files over several pieces and hundreds of small ones, with progress up to the last byte."""
    (package / "random.bin").write_bytes(os.urandom(5_000_000))
    (package / "zeros.bin").write_bytes(bytes(22_000_000))
    for number in range(400):
        (package / f"m{number}.py").write_text(f"x = {number}\n" * 50)
    bundle = bundled(job)
    plan = await plans.plan(caller, job, bundle)
    news: list[DeployProgress] = []
    done = await release.deploy(caller, job, bundle, plan, news.append)
    assert tree_of(done.path) == tree_of(package)
    sent = [item for item in news if item.stage == "send"]
    assert max(item.bytes_sent for item in sent) == plan.bytes_to_send == bundle.bytes
    assert plan.large


async def test_a_slow_link_gets_its_pieces_compressed(
    caller: NearCaller, job: Job, package: Path
) -> None:
    """What would shrink is sent small where the link, not the compressing, takes the time."""
    (package / "zeros.bin").write_bytes(bytes(12_000_000))
    (package / "random.bin").write_bytes(os.urandom(3_000_000))
    caller.bytes_per_s = 1e6  # for each of four at a time
    done, _ = await deployed(caller, job)
    assert tree_of(done.path) == tree_of(package)
    assert 3_000_000 < caller.sent_bytes < 8_000_000


async def test_only_changes_of_the_manifest_travel_where_the_last_release_is_known(
    caller: NearCaller, job: Job, package: Path
) -> None:
    """One file of hundreds changed, one is gone, one is new: their lines alone are told."""
    for number in range(300):
        (package / f"m{number}.py").write_text(f"x = {number}\n")
    first, _ = await deployed(caller, job)
    base = bundled(job)
    assert base.digest == first.digest
    (package / "m7.py").write_text("x = 'seven'\n")
    (package / "m8.py").unlink()
    (package / "n\udcff.py").write_text("new\n")
    bundle = bundled(job)
    plan = await plans.plan(caller, job, bundle, base)
    assert plan.manifest["base"] == first.digest
    assert (len(plan.manifest["drop"]), len(plan.manifest["add"])) == (2, 2)
    done = await release.deploy(caller, job, bundle, plan, lambda _: None)
    assert tree_of(done.path) == tree_of(package)


async def test_a_target_that_lost_the_last_release_is_told_the_whole_manifest(
    caller: NearCaller, job: Job, package: Path, workdir: Path
) -> None:
    """The working folder was removed meanwhile: the deploy goes through all the same."""
    await deployed(caller, job)
    base = bundled(job)
    shutil.rmtree(workdir)
    (package / "model.py").write_text("LAYERS = 4\n")
    bundle = bundled(job)
    plan = await plans.plan(caller, job, bundle, base)
    assert "whole" in plan.manifest
    done = await release.deploy(caller, job, bundle, plan, lambda _: None)
    assert tree_of(done.path) == tree_of(package)


async def test_shared_folders_outlive_releases(
    caller: NearCaller, job: Job, package: Path, workdir: Path
) -> None:
    """What a run writes there is seen from the next release, nested names too."""
    job = dataclasses.replace(job, shared=("checkpoints", "out/plots"))
    first, _ = await deployed(caller, job)
    Path(first.path, "checkpoints", "step-5").write_text("weights")
    Path(first.path, "out", "plots", "a.svg").write_text("svg")
    (package / "model.py").write_text("LAYERS = 4\n")
    second, _ = await deployed(caller, job)
    assert Path(second.path, "checkpoints", "step-5").read_text() == "weights"
    assert Path(second.path, "out", "plots", "a.svg").read_text() == "svg"
    assert (workdir / "shared" / "checkpoints" / "step-5").exists()


async def test_provenance_is_kept_with_the_release(
    caller: NearCaller, job: Job, package: Path, workdir: Path
) -> None:
    """Commit, branch, what was changed since, who, when and the inventory's digest."""
    git = ["git", "-C", str(package.parent), "-c", "user.name=A", "-c", "user.email=a@b.c"]
    subprocess.run([*git, "init", "-q", "-b", "main"], check=True)
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "one"], check=True)
    (package / "model.py").write_text("LAYERS = 7\n")
    (package / "new.py").write_text("x = 1\n")
    bundle = bundled(job)
    plan = await plans.plan(caller, job, bundle)
    await release.deploy(caller, job, bundle, plan, lambda _: None, inventory="cafe")
    listed = await release.releases(caller, job)
    kept = listed["releases"][0]
    head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    assert kept["provenance"]["commit"] == head.stdout.strip()
    assert kept["provenance"]["branch"] == "main"
    assert kept["provenance"]["dirty"] is True
    assert kept["provenance"]["untracked"] == ["trainer/new.py"]
    assert kept["provenance"]["inventory"] == "cafe"
    assert "@" in kept["provenance"]["by"]
    assert time.time() - 60 < kept["at"] <= time.time()
    diff = (workdir / "releases" / bundle.digest / "changes.diff").read_text()
    assert "+LAYERS = 7" in diff


async def test_rollback_goes_one_back_and_to_a_named_release(
    caller: NearCaller, job: Job, package: Path, workdir: Path
) -> None:
    """Without a name the release before; with the start of one, that one."""
    made = []
    for number in range(3):
        (package / "model.py").write_text(f"LAYERS = {number}\n")
        made.append((await deployed(caller, job))[0].digest)
    answer = await release.rollback(caller, job)
    assert (answer["before"], answer["current"]) == (made[2], made[1])
    assert (await release.rollback(caller, job))["current"] == made[0]
    assert (await release.rollback(caller, job, made[2][:7]))["current"] == made[2]
    assert os.readlink(workdir / "current") == f"releases/{made[2]}"
    with pytest.raises(UsageError, match=rf"no release.*{made[0]}"):
        await release.rollback(caller, job, "zzz")
    await release.rollback(caller, job, made[0])
    with pytest.raises(UsageError, match="no release before the current one") as refused:
        await release.rollback(caller, job)
    assert refused.value.remedy == f"Name one: {made[2]}, {made[1]}."


async def test_one_release_is_no_way_back(caller: NearCaller, job: Job, package: Path) -> None:
    """The current release is not offered as the remedy of having no other."""
    (package / "model.py").write_text("LAYERS = 1\n")
    await deployed(caller, job)
    with pytest.raises(UsageError, match="no release before the current one") as refused:
        await release.rollback(caller, job)
    assert refused.value.remedy == "It has no other; deploy one."


async def test_a_rollback_to_a_changed_release_is_refused(
    caller: NearCaller, job: Job, package: Path, workdir: Path
) -> None:
    """A program wrote into the old release: it is no more what was deployed, and that is said."""
    first, _ = await deployed(caller, job)
    (package / "model.py").write_text("LAYERS = 4\n")
    second, _ = await deployed(caller, job)
    Path(first.path, "model.py").write_text("BROKEN")
    with pytest.raises(DeployError, match=r"trainer/model\.py changed since"):
        await release.rollback(caller, job)
    assert os.readlink(workdir / "current") == f"releases/{second.digest}"


async def test_prune_spares_the_current_the_protected_and_those_in_use(
    caller: NearCaller, job: Job, package: Path, workdir: Path
) -> None:
    """Only releases that nobody needs are removed, oldest first."""
    job = dataclasses.replace(job, keep=1)
    made = []
    for number in range(5):
        (package / "model.py").write_text(f"LAYERS = {number}\n")
        made.append((await deployed(caller, job))[0])
    await release.rollback(caller, job, made[1].digest)
    living = subprocess.Popen(["sleep", "60"], cwd=made[0].path)
    try:
        answer = await release.prune(caller, job, protect=frozenset({made[2].digest}))
    finally:
        living.kill()
        living.wait()
    assert answer["removed"] == [made[3].digest]
    there = {name for name in os.listdir(workdir / "releases") if not name.startswith(".")}
    assert there == {made[n].digest for n in (0, 1, 2, 4)}
    listed = await release.releases(caller, job)
    assert [item["digest"] for item in listed["releases"]] == [made[n].digest for n in (4, 2, 1, 0)]


async def test_a_file_that_changes_while_it_is_sent_ends_the_deploy(
    caller: NearCaller, job: Job, package: Path, workdir: Path
) -> None:
    """The old release stays the current one."""
    first, _ = await deployed(caller, job)
    (package / "model.py").write_text("LAYERS = 4\n")
    bundle = bundled(job)
    plan = await plans.plan(caller, job, bundle)
    (package / "model.py").write_text("LAYERS = 5\n")
    with pytest.raises(DeployError, match=r"model\.py changed while it was being sent"):
        await release.deploy(caller, job, bundle, plan, lambda _: None)
    assert os.readlink(workdir / "current") == f"releases/{first.digest}"
    done, _ = await deployed(caller, job)
    assert tree_of(done.path) == tree_of(package)


async def test_two_deploys_at_once_both_end_whole(
    job: Job, package: Path, workdir: Path, tmp_path: Path
) -> None:
    """Two packages into one working folder: each release is whole, `current` is one of them."""
    other = tmp_path / "other" / "trainer"
    other.mkdir(parents=True)
    (other / "model.py").write_text("OTHER = 1\n")
    second = dataclasses.replace(job, package=str(other))
    callers = NearCaller(), NearCaller()
    (one, _), (two, _) = await asyncio.gather(
        deployed(callers[0], job), deployed(callers[1], second)
    )
    assert tree_of(one.path) == tree_of(package)
    assert tree_of(two.path) == tree_of(other)
    assert os.readlink(workdir / "current").removeprefix("releases/") in {one.digest, two.digest}


async def test_deploys_of_the_same_release_at_once_take_turns(
    caller: NearCaller, job: Job, package: Path, workdir: Path
) -> None:
    """Of one package for several jobs the first is sent, and the others find it there."""
    for round_ in range(6):
        for number in range(30):
            (package / f"file{number}.py").write_text(f"ROUND = {round_}, {number}\n" * 50)
        done = await asyncio.gather(*(deployed(caller, job) for _ in range(4)))
        assert len({one.digest for one, _ in done}) == 1
        assert tree_of(done[0][0].path) == tree_of(package)
        assert leftovers(workdir) == []


async def test_a_workdir_that_cannot_be_made_is_refused_with_its_remedy(
    caller: NearCaller, job: Job, tmp_path: Path
) -> None:
    """A file stands where the working folder should be."""
    (tmp_path / "file").write_text("x")
    job = dataclasses.replace(job, workdir=str(tmp_path / "file" / "work"))
    with pytest.raises(DeployError, match="Not a directory"):
        await deployed(caller, job)


async def test_the_record_beside_a_release_is_whole_json(
    caller: NearCaller, job: Job, workdir: Path
) -> None:
    """release.json can be read by anybody."""
    done, _ = await deployed(caller, job)
    record = json.loads((workdir / "releases" / done.digest / "release.json").read_text())
    assert record["digest"] == done.digest
    assert (record["files"], record["bytes"]) == (done.files, done.bytes)


async def test_a_deploy_that_is_cancelled_leaves_nothing_behind(
    caller: NearCaller, job: Job, package: Path, workdir: Path
) -> None:
    """Neither what had come nor what was still on its way."""
    await deployed(caller, job)
    (package / "weights.bin").write_bytes(os.urandom(20_000_000))
    bundle = bundled(job)
    plan = await plans.plan(caller, job, bundle)
    begun = asyncio.Event()
    deploying = asyncio.create_task(
        release.deploy(caller, job, bundle, plan, lambda _: begun.set())
    )
    await begun.wait()
    deploying.cancel()
    await asyncio.gather(deploying, return_exceptions=True)
    assert deploying.cancelled()
    async with asyncio.timeout(20):
        while caller.at_work:
            await asyncio.sleep(0.01)
    assert leftovers(workdir) == []


def test_the_probe_answers_every_op_of_a_deploy() -> None:
    """None of them is missing from the probe's table."""
    assert {name: OP_MODULES.get(name) for name in far_side.OPS} == dict.fromkeys(
        far_side.OPS, "release"
    )


def twin_of(workdir: Path) -> Path:
    """Make the twin of the current release at once, as a deploy of many files does later."""
    places = Workdir(str(workdir))
    current = places.current()
    assert current is not None
    spare.make(places, current)
    return workdir / "releases" / f".spare-{current}"


async def test_a_release_made_of_a_twin_is_the_package_and_nothing_else(
    caller: NearCaller, job: Job, package: Path, workdir: Path
) -> None:
    """Changed, new, gone, another mode, a folder for a file, a link for a file, the other way."""
    for name in ("a", "b", "c", "d"):
        (package / name).write_text(name)
    (package / "deep" / "er").mkdir(parents=True)
    (package / "deep" / "er" / "x").write_text("x")
    (package / "nothing").mkdir()
    (package / "to-a").symlink_to("a")
    first, _ = await deployed(caller, job)
    twin = twin_of(workdir)
    assert tree_of(twin / "trainer") == tree_of(first.path)
    shutil.rmtree(package / "deep")
    (package / "deep").write_text("a file now")
    (package / "a").unlink()
    (package / "b").unlink()
    (package / "b").mkdir()
    (package / "b" / "inner").write_text("inner")
    (package / "c").chmod(0o755)
    (package / "to-a").unlink()
    (package / "to-a").write_text("no link")
    (package / "nothing" / "something").write_text("s")
    before = tree_of(first.path)
    second, plan = await deployed(caller, job)
    assert tree_of(second.path) == tree_of(package)
    assert tree_of(first.path) == before
    assert not twin.exists()
    assert "trainer/model.py" not in plan.paths
    assert leftovers(workdir) == []


async def test_a_twin_is_trusted_no_more_than_a_release(
    caller: NearCaller, job: Job, package: Path, workdir: Path
) -> None:
    """What was written into it, or into the release that shares its files, is sent again."""
    first, _ = await deployed(caller, job)
    twin = twin_of(workdir)
    (twin / "trainer" / "model.py").unlink()
    with open(Path(first.path, "__main__.py"), "a") as file:
        file.write("BROKEN\n")
    (package / "configs" / "tiny.toml").write_text("steps = 6\n")
    second, plan = await deployed(caller, job)
    assert "trainer/__main__.py" in plan.paths
    assert tree_of(second.path) == tree_of(package)


async def test_many_files_get_a_twin_and_a_later_deploy_removes_an_old_one(
    caller: NearCaller, job: Job, package: Path, workdir: Path
) -> None:
    """It is there soon after the deploy, of the current release only."""
    for number in range(spare.LEAST_FILES):
        (package / f"m{number}").write_text(str(number))
    first, _ = await deployed(caller, job)
    async with asyncio.timeout(20):
        while spare.path_of(Workdir(str(workdir)), first.digest) is None:
            await asyncio.sleep(0.02)
    (package / "model.py").write_text("LAYERS = 4\n")
    second, _ = await deployed(caller, job)
    assert tree_of(second.path) == tree_of(package)
    async with asyncio.timeout(20):
        while spare.path_of(Workdir(str(workdir)), second.digest) is None:
            await asyncio.sleep(0.02)
    assert spare.path_of(Workdir(str(workdir)), first.digest) is None
