"""The code of two releases, held against each other with no target."""

import time
from pathlib import Path

from orchestrator.core.model import Job
from orchestrator.deploy import code
from orchestrator.deploy.bundle import Bundle, collect
from orchestrator.deploy.hashes import HashCache


def kept(job: Job, tmp_path: Path) -> Bundle:
    """The job's package as it is now, its code kept."""
    bundle = collect(job, cache=HashCache(tmp_path / "hashes.json"), now=time.time())
    code.keep(tmp_path / "code", bundle)
    return bundle


def test_changed_files_are_named_with_their_lines(job: Job, package: Path, tmp_path: Path) -> None:
    """An edit, a new file, a removed one, and a binary: each is said as what it is."""
    (package / "weights.bin").write_bytes(b"\0\1")
    before = kept(job, tmp_path)
    (package / "__main__.py").write_text("print('one')\nprint('two')\n")
    (package / "new.py").write_text("x = 1\n")
    (package / "configs" / "tiny.toml").unlink()
    (package / "weights.bin").write_bytes(b"\0\2")
    after = kept(job, tmp_path)
    found = code.compare(tmp_path / "code", before.digest, after.digest)
    assert found is not None
    assert [str(one) for one in found.files] == [
        "trainer/__main__.py changed (+1 -0)",
        "trainer/configs/tiny.toml removed (+0 -1)",
        "trainer/new.py added (+1 -0)",
        "trainer/weights.bin changed",
    ]
    assert "+print('two')" in found.diff.splitlines()


def test_same_release_and_unknown_release(job: Job, tmp_path: Path) -> None:
    """A release differs from itself in nothing; of one that is not kept, nothing is known."""
    bundle = kept(job, tmp_path)
    folder = tmp_path / "code"
    same = code.compare(folder, bundle.digest, bundle.digest)
    assert same is not None
    assert same.files == ()
    assert code.compare(folder, bundle.digest, "0" * 16) is None
    assert code.kept(folder) == (bundle.digest,)
    code.forget(folder, bundle.digest)
    assert code.kept(folder) == ()


def test_file_edited_after_the_bundle_was_made_is_not_kept(
    job: Job, package: Path, tmp_path: Path
) -> None:
    """Text is kept only where it is the very text that the manifest names."""
    bundle = collect(job, cache=HashCache(tmp_path / "hashes.json"), now=time.time())
    (package / "model.py").write_text("LAYERS = 9\n" * 200)
    code.keep(tmp_path / "code", bundle)
    later = kept(job, tmp_path)
    found = code.compare(tmp_path / "code", bundle.digest, later.digest)
    assert found is not None
    assert [str(one) for one in found.files] == ["trainer/model.py changed"]
