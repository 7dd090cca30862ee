"""What of a package is shipped, what is refused, and when its digest changes."""

import dataclasses
import json
import os
import socket
import time
from pathlib import Path

import pytest

from orchestrator.core.errors import DeployError, UsageError
from orchestrator.core.model import Job, Setup
from orchestrator.deploy.bundle import Bundle, collect
from orchestrator.deploy.hashes import HashCache
from orchestrator.probe import manifest as wire


def bundle_of(job: Job, tmp_path: Path, **changes: object) -> Bundle:
    """The bundle of a changed job."""
    changed = dataclasses.replace(job, **changes)  # type: ignore[arg-type]
    return collect(changed, cache=HashCache(tmp_path / "hashes.json"), now=time.time())


def paths(bundle: Bundle) -> set[str]:
    """All paths of a bundle below its package."""
    return {entry.path.partition("/")[2] for entry in bundle.manifest.entries}


def test_time_stamps_are_not_part_of_the_digest(job: Job, package: Path, tmp_path: Path) -> None:
    """Touching every file leaves the digest what it was."""
    before = bundle_of(job, tmp_path)
    for path in package.rglob("*"):
        os.utime(path, (1, 1))
    assert bundle_of(job, tmp_path).digest == before.digest


@pytest.mark.parametrize("change", ["content", "mode", "name", "setup", "shared"])
def test_whatever_makes_another_release_changes_the_digest(
    job: Job, package: Path, tmp_path: Path, change: str
) -> None:
    """A changed byte, mode, name, setup or shared folder is another release."""
    before = bundle_of(job, tmp_path)
    match change:
        case "content":
            (package / "model.py").write_text("LAYERS = 4\n" * 200)
        case "mode":
            (package / "model.py").chmod(0o755)
        case "name":
            (package / "model.py").rename(package / "models.py")
        case "setup":
            job = dataclasses.replace(job, setup=Setup())
        case "shared":
            job = dataclasses.replace(job, shared=("checkpoints",))
        case _:
            raise AssertionError(change)
    assert bundle_of(job, tmp_path).digest != before.digest


def test_a_change_that_keeps_size_and_time_stamp_is_seen(
    job: Job, package: Path, tmp_path: Path
) -> None:
    """The cache of hashes is not fooled by an edit whose time stamp was put back."""
    path = package / "model.py"
    os.utime(path, (1000, 1000))
    before = collect(job, cache=HashCache(tmp_path / "hashes.json"), now=time.time() + 10)
    path.write_text(path.read_text().replace("3", "4"))
    os.utime(path, (1000, 1000))
    after = collect(job, cache=HashCache(tmp_path / "hashes.json"), now=time.time() + 10)
    assert after.digest != before.digest


def test_a_second_walk_reads_no_file(job: Job, package: Path, tmp_path: Path) -> None:
    """Hashes are kept: a file that cannot be read any more has the digest it had."""
    cache = tmp_path / "hashes.json"
    before = collect(job, cache=HashCache(cache), now=time.time() + 10)
    kept = cache.read_text()
    assert str(package / "model.py") in kept
    known = kept.replace(before.manifest.entries[-1].content, "0" * 64)
    cache.write_text(known)
    after = collect(job, cache=HashCache(cache), now=time.time() + 10)
    assert after.manifest.entries[-1].content == "0" * 64


def test_a_broken_cache_of_hashes_is_no_obstacle(job: Job, tmp_path: Path) -> None:
    """A torn cache file counts as an empty one."""
    before = bundle_of(job, tmp_path)
    (tmp_path / "hashes.json").write_text('{"version": 1, "files": {"x')
    assert bundle_of(job, tmp_path).digest == before.digest


def test_gitignore_files_at_every_level_and_exclude_are_obeyed(
    job: Job, package: Path, tmp_path: Path
) -> None:
    """The repository's, the package's, a nested one that takes back, `exclude:` over all."""
    repository = package.parent
    (repository / ".git").mkdir()
    (repository / ".gitignore").write_text("*.log\n/trainer/only-here.txt\n")
    (package / ".gitignore").write_text("build/\n*.pt\n")
    (package / "configs" / ".gitignore").write_text("!keep.log\n*.secret\n")
    names = [
        "a.log", "only-here.txt", "build/x.o", "tiny.pt", "configs/keep.log", "configs/a.secret",
        "a.secret", "notes.md",
    ]  # fmt: skip
    for name in names:
        (package / name).parent.mkdir(exist_ok=True)
        (package / name).write_text(name)
    found = paths(bundle_of(job, tmp_path, exclude=("notes.md", "!tiny.pt")))
    assert found & set(names) == {"configs/keep.log", "a.secret", "tiny.pt"}


def test_what_is_never_shipped(job: Job, package: Path, tmp_path: Path) -> None:
    """A repository, byte code and a virtual environment stay here at every depth."""
    for name in (".git/HEAD", "__pycache__/x.pyc", ".venv/bin/python", "sub/__pycache__/y.pyc"):
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text("x")
    assert paths(bundle_of(job, tmp_path)) == {"__main__.py", "configs/tiny.toml", "model.py"}


def test_a_shared_folder_is_not_shipped(job: Job, package: Path, tmp_path: Path) -> None:
    """What outlives releases on the target is not sent from here."""
    (package / "checkpoints").mkdir()
    (package / "checkpoints" / "last.pt").write_text("weights")
    assert "checkpoints/last.pt" in paths(bundle_of(job, tmp_path))
    assert "checkpoints/last.pt" not in paths(bundle_of(job, tmp_path, shared=("checkpoints",)))


def test_an_empty_folder_is_shipped_and_an_emptied_one_is_not(
    job: Job, package: Path, tmp_path: Path
) -> None:
    """A folder of which everything is left out does not appear; a really empty one does."""
    (package / "empty").mkdir()
    (package / "only-code" / "__pycache__").mkdir(parents=True)
    found = paths(bundle_of(job, tmp_path))
    assert "empty" in found
    assert "only-code" not in found


def test_everything_that_cannot_be_shipped_is_said_at_once(
    job: Job, package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Links out of the package, sockets, FIFOs and files over the limit are all named."""
    monkeypatch.chdir(package)
    (package / "out").symlink_to("../../elsewhere")
    (package / "absolute").symlink_to("/etc/passwd")
    (package / "in").symlink_to("configs/../model.py")
    os.mkfifo(package / "pipe")
    with open(package / "big.bin", "wb") as file:
        file.truncate(3 * 1024**3)
    with socket.socket(socket.AF_UNIX) as endpoint:
        endpoint.bind("sock")
        with pytest.raises(DeployError) as refused:
            bundle_of(job, tmp_path)
    text = str(refused.value)
    assert "out is a link out of the package, to ../../elsewhere" in text
    assert "absolute is a link out of the package, to /etc/passwd" in text
    assert "pipe is a FIFO" in text
    assert "sock is a socket" in text
    assert "big.bin has 3.0 GiB; a file of a package has 2.0 GiB at most" in text
    assert "trainer/in " not in text
    assert "exclude:" in text


def test_control_characters_of_a_name_do_not_reach_the_sentence(
    job: Job, package: Path, tmp_path: Path
) -> None:
    """A name made to play with the terminal is shown escaped."""
    os.mkfifo(os.fsencode(package) + b"/\x1b[2Jevil\n\xff")
    with pytest.raises(DeployError) as refused:
        bundle_of(job, tmp_path)
    assert "\x1b" not in str(refused.value)
    assert "\\x1b[2Jevil" in str(refused.value)


def test_requirements_must_be_shipped(job: Job, package: Path, tmp_path: Path) -> None:
    """A requirements file that is not in the package is named with its job and what is near."""
    with pytest.raises(UsageError) as refused:
        bundle_of(job, tmp_path, setup=Setup(requirements="requirements.txt"))
    why = "names requirements.txt, which is not in the package."
    assert refused.value.message == f"jobs.{job.name}.setup.requirements {why}"
    (package / "requirements.txt").touch()
    with pytest.raises(UsageError, match=r"the package; did you mean requirements\.txt\?"):
        bundle_of(job, tmp_path, setup=Setup(requirements="requirement.txt"))


def test_a_file_that_goes_before_it_is_read_is_refused(
    job: Job, package: Path, tmp_path: Path
) -> None:
    """An editor saves by a rename: a release without that file became the current one."""
    cache = HashCache(tmp_path / "hashes.json")
    with pytest.raises(DeployError, match=r"model\.py cannot be read \(No such file"):
        collect(
            job,
            cache=cache,
            now=time.time(),
            on_unread=lambda _: (package / "model.py").unlink(missing_ok=True),
        )


@pytest.mark.parametrize("name", ["inventory.yaml", "conf/my [inv] *.yaml"])
def test_the_inventory_in_use_is_no_part_of_a_package(
    job: Job, package: Path, tmp_path: Path, name: str
) -> None:
    """An edit of it, or of the schema beside it, is no new release; its namesakes are shipped."""
    inventory = package / name
    (package / "other").mkdir()
    inventory.parent.mkdir(exist_ok=True)
    schema = inventory.with_name("inventory.schema.json")
    others = [package / "other/inventory.yaml", package / "other/inventory.schema.json"]

    def shipped(text: str) -> Bundle:
        for path in (inventory, schema):
            path.write_text(text)
        cache = HashCache(tmp_path / "hashes.json")
        return collect(job, cache=cache, now=time.time(), inventory=inventory)

    for path in others:
        path.write_text("mine")
    before = shipped("version: 1\n")
    assert not {name, str(schema.relative_to(package))} & paths(before)
    assert {str(path.relative_to(package)) for path in others} <= paths(before)
    assert shipped("version: 1 # edited\n").digest == before.digest


def test_an_inventory_is_shipped_where_the_job_says_so(
    job: Job, package: Path, tmp_path: Path
) -> None:
    """`exclude:` has the last word on it, by a `!`."""
    inventory = package / "inventory.yaml"
    inventory.write_text("version: 1\n")
    asked = dataclasses.replace(job, exclude=("!/inventory.yaml",))
    cache = HashCache(tmp_path / "hashes.json")
    bundle = collect(asked, cache=cache, now=time.time(), inventory=inventory)
    assert "inventory.yaml" in paths(bundle)


def test_a_job_without_a_package_has_nothing_to_deploy(job: Job, tmp_path: Path) -> None:
    """It is said, with the key that is missing."""
    with pytest.raises(DeployError, match="no package to deploy"):
        bundle_of(job, tmp_path, package=None)


def test_an_entry_s_line_is_what_json_makes_of_it() -> None:
    """Names with quotes, control characters, letters of all kinds and broken bytes too."""
    for name in ('a"b\\c', "line\nbreak\x1b", "gr\u00fc\u00dfe \U0001f600", "broken\udcff"):
        entry = wire.Entry(f"trainer/{name}", wire.LINK, 0o644, 7, name)
        assert wire.line_of(entry) == json.dumps(entry, separators=(",", ":"))


def test_what_has_to_be_read_is_told_before_it_is_read(job: Job, package: Path) -> None:
    """The bytes of all files at first, of none once they are known."""
    told: list[int] = []
    cache = HashCache(package.parent / "cache.json")
    later = time.time() + 10
    bundle = collect(job, cache=cache, now=later, on_unread=told.append)
    collect(job, cache=cache, now=later, on_unread=told.append)
    assert told == [bundle.bytes, 0]
