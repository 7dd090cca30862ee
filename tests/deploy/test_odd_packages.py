"""Packages that nobody would think of: they are shipped or refused in words, and nothing hangs."""

import dataclasses
import hashlib
import os
import subprocess
import time
from pathlib import Path

import pytest

from orchestrator.core.errors import DeployError, UsageError
from orchestrator.core.model import Job
from orchestrator.deploy import plan as plans
from orchestrator.deploy import release
from orchestrator.deploy.bundle import Bundle, collect
from orchestrator.deploy.hashes import HashCache
from orchestrator.deploy.pieces import read_pieces
from orchestrator.deploy.provenance import MAX_DIFF_BYTES, MAX_UNTRACKED_CHARS, describe
from orchestrator.probe import manifest as wire
from orchestrator.probe.frames import MAX_FRAME_BYTES

from .caller import NearCaller
from .whole import tree_of


def bundle_of(job: Job, tmp_path: Path) -> Bundle:
    """What would be shipped now."""
    return collect(job, cache=HashCache(tmp_path / "hashes.json"), now=time.time())


def deep(folder: Path, levels: int, name: str) -> None:
    """Folders in one another, past the length of a path that the system takes in one."""
    before = os.open(".", os.O_RDONLY)
    try:
        os.chdir(folder)
        for _ in range(levels):
            os.mkdir(name)
            os.chdir(name)
        Path("x").write_text("x")
    finally:
        os.fchdir(before)
        os.close(before)


def test_a_package_may_be_called_as_a_file_of_a_release_is_not(
    job: Job, package: Path, tmp_path: Path
) -> None:
    """A folder `manifest` would stand where the release keeps its own list."""
    other = package.rename(package.with_name("manifest"))
    with pytest.raises(UsageError, match=r"jobs\.dflash\.package: .* cannot be called manifest"):
        bundle_of(dataclasses.replace(job, package=str(other)), tmp_path)


@pytest.mark.parametrize(("levels", "name"), [(150, "d"), (40, "d" * 200)])
def test_folders_too_deep_are_refused(
    job: Job, package: Path, tmp_path: Path, levels: int, name: str
) -> None:
    """Deeper than both ends go down, or than a path may be long: in words, and not as a failure."""
    deep(package, levels, name)
    with pytest.raises(DeployError, match=r"more than 100 folders deep|cannot be read \(File name"):
        bundle_of(job, tmp_path)


async def test_the_deepest_folder_that_is_taken_arrives(
    job: Job, package: Path, caller: NearCaller, tmp_path: Path
) -> None:
    """As many folders as a package may have in one another are built on the other side."""
    deep(package, 100, "d")
    bundle = bundle_of(job, tmp_path)
    plan = await plans.plan(caller, job, bundle)
    made = await release.deploy(caller, job, bundle, plan, lambda _: None)
    assert tree_of(Path(made.path)) == tree_of(package)
    deep(package, 101, "e")
    with pytest.raises(DeployError, match="more than 100 folders deep"):
        bundle_of(job, tmp_path)


def test_a_gitignore_that_is_no_file_is_none(job: Job, package: Path, tmp_path: Path) -> None:
    """A FIFO of that name was waited for without an end, and a device read into memory."""
    os.mkfifo(package / "configs" / ".gitignore")
    (package / "endless").mkdir()
    (package / "endless" / ".gitignore").symlink_to("/dev/zero")
    with pytest.raises(DeployError, match=r"\.gitignore is a FIFO"):
        bundle_of(job, tmp_path)


def test_a_file_that_became_a_fifo_is_not_waited_for(
    job: Job, package: Path, tmp_path: Path
) -> None:
    """Between the walk and the sending, a file can become what nobody writes to."""
    bundle = bundle_of(job, tmp_path)
    path = package / "model.py"
    sha = hashlib.sha256(path.read_bytes()).hexdigest()
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(DeployError, match="changed while it was being sent"):
        list(read_pieces(bundle, [sha], iter([100, 100])))


def test_a_shared_folder_is_no_pattern(job: Job, package: Path, tmp_path: Path) -> None:
    """`runs[1]` leaves out that folder, and not `runs1`."""
    for name in ("runs[1]", "runs1"):
        (package / name).mkdir()
        (package / name / "x").write_text("x")
    found = bundle_of(dataclasses.replace(job, shared=("runs[1]",)), tmp_path)
    paths = {entry.path for entry in found.manifest.entries}
    assert "trainer/runs1/x" in paths
    assert "trainer/runs[1]/x" not in paths


def made_of(names: list[str], content: str) -> Bundle:
    """A bundle of files that are nowhere."""
    entries = tuple(wire.Entry(f"p/{name}", wire.FILE, 0o644, 1, content) for name in names)
    manifest = wire.Manifest("p", entries, None, ())
    lines = frozenset(map(wire.line_of, entries))
    digest = wire.digest_of(wire.join(manifest.header(), lines))
    return Bundle(digest=digest, manifest=manifest, lines=lines, sources={}, folder="/p")


def test_a_manifest_that_fits_into_no_frame_is_refused() -> None:
    """Names that do not compress: it failed in the middle, with a traceback."""
    names = [hashlib.sha512(str(number).encode()).hexdigest() for number in range(70_000)]
    with pytest.raises(DeployError, match="has 70000 files, with names so long"):
        made_of(names, "0" * 64).told_whole()


def test_a_great_change_is_told_whole() -> None:
    """A folder of 30000 files that was renamed: line by line that fits into no frame."""
    before = made_of([f"a/{number:090}" for number in range(30_000)], "0" * 64)
    after = made_of([f"b/{number:090}" for number in range(30_000)], "0" * 64)
    assert after.told_since(before) is None
    assert len(after.told_whole()["whole"]) < MAX_FRAME_BYTES / 2
    assert before.told_since(before) is not None


async def test_a_great_change_is_deployed(
    job: Job, package: Path, caller: NearCaller, tmp_path: Path
) -> None:
    """Told whole although the last one is known there, it arrives."""
    first = bundle_of(job, tmp_path)
    plan = await plans.plan(caller, job, first)
    await release.deploy(caller, job, first, plan, lambda _: None)
    for number in range(80):
        (package / f"{number:0200}").mkdir()
        for name in "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ":
            (package / f"{number:0200}" / f"{name}{number}").touch()
    second = bundle_of(job, tmp_path)
    assert second.told_since(first) is None
    plan = await plans.plan(caller, job, second, first)
    made = await release.deploy(caller, job, second, plan, lambda _: None)
    assert tree_of(Path(made.path)) == tree_of(package)


async def test_of_git_no_more_is_read_than_is_kept(tmp_path: Path) -> None:
    """A changed file of weights makes a diff of its size; thousands of new files, a long list."""
    git = ["git", "-C", str(tmp_path), "-c", "user.email=a@b", "-c", "user.name=a"]
    subprocess.run([*git, "init", "-q"], check=True)
    (tmp_path / "weights").write_bytes(b"")
    subprocess.run([*git, "add", "-A"], check=True)
    subprocess.run([*git, "commit", "-qm", "one"], check=True)
    (tmp_path / "weights").write_bytes(os.urandom(3 * MAX_DIFF_BYTES))
    for number in range(1000):
        (tmp_path / f"{number:0200}").touch()
    found = await describe(str(tmp_path))
    assert len(found.diff) == MAX_DIFF_BYTES
    assert found.dirty
    assert found.commit is not None
    assert 0 < sum(map(len, found.untracked)) <= MAX_UNTRACKED_CHARS
