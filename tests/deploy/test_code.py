"""The code of two releases, held against each other with no target."""

import time
import tracemalloc
from pathlib import Path

import zstandard

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


def test_memory_is_flat_in_the_texts_that_are_kept(job: Job, package: Path, tmp_path: Path) -> None:
    """Hundreds of files are packed one by one: as one they took four times their size."""
    for number in range(200):
        (package / f"m{number}.py").write_text(f"x = {number}  # a line of code\n" * 1000)
    bundle = collect(job, cache=HashCache(tmp_path / "hashes.json"), now=time.time())
    assert bundle.bytes > 4_000_000
    tracemalloc.start()
    try:
        code.keep(tmp_path / "code", bundle)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1_500_000
    (package / "m7.py").write_text("x = 8\n")
    later = kept(job, tmp_path)
    found = code.compare(tmp_path / "code", bundle.digest, later.digest)
    assert found is not None
    assert [str(one) for one in found.files] == ["trainer/m7.py changed (+1 -1000)"]


def test_what_an_earlier_orch_kept_is_read_and_what_is_cut_is_not_known(
    job: Job, package: Path, tmp_path: Path
) -> None:
    """It packed all in one; a file that a power cut left short tells nothing."""
    before = kept(job, tmp_path)
    (package / "model.py").write_text("LAYERS = 9\n")
    after = kept(job, tmp_path)
    folder = tmp_path / "code"
    unpacking = zstandard.ZstdDecompressor()
    for path in folder.iterdir():
        content = unpacking.decompressobj().decompress(path.read_bytes())
        path.write_bytes(zstandard.compress(content, 1))
    found = code.compare(folder, before.digest, after.digest)
    assert found is not None
    assert [str(one) for one in found.files] == ["trainer/model.py changed (+1 -200)"]
    cut = folder / f"{after.digest}.code.zst"
    cut.write_bytes(cut.read_bytes()[:-10])
    assert code.compare(folder, before.digest, after.digest) is None
