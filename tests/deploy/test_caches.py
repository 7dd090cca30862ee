"""Compile caches kept, put aside and brought back, in real folders; and which of them fits."""

import dataclasses
import os
from pathlib import Path

import pytest

from orchestrator.core.model import Job
from orchestrator.deploy import kernels
from orchestrator.deploy.kernels import Kept, Making
from orchestrator.link.calls import CallFailed

from .caller import NearCaller

MAKING = Making(torch="2.11", triton="3.6", driver="570.86", gpu="sm_90", code="abc")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the job's kernels go; an inductor cache with Triton's in it, and CUDA's beside."""
    top = tmp_path / "compiled"
    (top / "inductor" / "ab" / "triton" / "0").mkdir(parents=True)
    (top / "inductor" / "ab" / "graph.py").write_text("def call(): ...\n")
    (top / "inductor" / "ab" / "triton" / "0" / "kernel.cubin").write_bytes(bytes(5000))
    (top / "inductor" / "ab" / "run.so").write_bytes(b"\x7fELF")
    (top / "inductor" / "ab" / "run.so").chmod(0o755)
    (top / "inductor" / "link.so").symlink_to("ab/run.so")
    (top / "cuda").mkdir()
    (top / "cuda" / "index").write_bytes(bytes(300))
    return top


@pytest.fixture
def job(job: Job, folder: Path) -> Job:
    """A job that compiles into that folder alone."""
    env = {
        "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor",
        "TRITON_CACHE_DIR": f"{folder}/inductor/ab/triton",
        "CUDA_CACHE_PATH": f"{folder}/cuda",
        "FLASHINFER_WORKSPACE_BASE": f"{folder}/flashinfer",
    }
    return dataclasses.replace(job, env=env)


def tree(top: Path) -> dict[str, tuple[int, bytes | str]]:
    """Everything in a folder: mode, and content or where a link leads."""
    found: dict[str, tuple[int, bytes | str]] = {}
    for path in top.rglob("*"):
        content: bytes | str = b""
        if path.is_symlink():
            content = str(path.readlink())
        elif path.is_file():
            content = path.read_bytes()
        found[str(path.relative_to(top))] = (path.lstat().st_mode, content)
    return found


async def test_what_was_saved_comes_back_as_it_was(
    caller: NearCaller, job: Job, folder: Path
) -> None:
    """Contents, modes and links of all kinds of caches; what is there is not written over."""
    before = tree(folder)
    saved = await kernels.save(caller, job, MAKING)
    assert (saved["name"], saved["kinds"]) == (MAKING.name, ["cuda", "inductor"])
    now, kept = await kernels.held(caller, job)
    assert {one["kind"]: one["bytes"] for one in now}["cuda"] == 300
    assert [(one.name, one.making, one.bytes) for one in kept] == [
        (MAKING.name, MAKING, saved["bytes"])
    ]
    graph = folder / "inductor" / "ab" / "graph.py"
    graph.unlink()
    (folder / "cuda" / "index").write_bytes(b"newer")
    answer = await kernels.restore(caller, job, MAKING.name)
    assert (answer["files"], answer["there"]) == (1, 4)
    assert (folder / "cuda" / "index").read_bytes() == b"newer"
    (folder / "cuda" / "index").write_bytes(bytes(300))
    assert tree(folder) == before


async def test_a_kept_cache_is_a_copy_of_its_own(
    caller: NearCaller, job: Job, folder: Path
) -> None:
    """A program that writes into its cache afterwards changes nothing of what is kept."""
    await kernels.save(caller, job, MAKING)
    index = folder / "cuda" / "index"
    with index.open("r+b") as file:
        file.write(b"changed")
    kept = Path(job.workdir) / "caches" / MAKING.name / "cuda" / "index"
    assert kept.read_bytes() == bytes(300)


async def test_clearing_leaves_empty_folders_and_keeps_all(
    caller: NearCaller, job: Job, folder: Path
) -> None:
    """The caches are empty, with their modes; each clearing is kept apart, and can be undone."""
    (folder / "inductor").chmod(0o711)
    before = tree(folder)
    cleared = await kernels.clear(caller, job, MAKING)
    assert cleared["name"] == f"{MAKING.name}-cleared"
    assert sorted(path.name for path in folder.rglob("*")) == ["cuda", "inductor"]
    assert (folder / "inductor").stat().st_mode & 0o777 == 0o711
    with pytest.raises(CallFailed, match="no compiled kernels"):
        await kernels.clear(caller, job, MAKING)
    await kernels.restore(caller, job, cleared["name"])
    assert tree(folder) == before
    again = await kernels.clear(caller, job, MAKING)
    assert again["name"] == f"{MAKING.name}-cleared-2"


async def test_three_of_each_way_of_keeping_stay(caller: NearCaller, job: Job) -> None:
    """The oldest saved one goes for the fourth; what was put aside is counted apart."""
    cleared = await kernels.clear(caller, job, MAKING)
    await kernels.restore(caller, job, cleared["name"])
    makings = [dataclasses.replace(MAKING, code=code) for code in ("a", "b", "c", "d")]
    dropped = [(await kernels.save(caller, job, one))["dropped"] for one in makings]
    assert dropped == [[], [], [], [makings[0].name]]
    _, kept = await kernels.held(caller, job)
    assert {one.name for one in kept} == {*(one.name for one in makings[1:]), cleared["name"]}


async def test_a_save_that_was_killed_is_no_kept_cache(
    caller: NearCaller, job: Job, folder: Path
) -> None:
    """Its rest is not listed, cannot be restored, and goes with the next save."""
    rest = Path(job.workdir) / "caches" / f".new-{MAKING.name}" / "inductor"
    rest.mkdir(parents=True)
    (rest / "half").write_bytes(b"x")
    assert (await kernels.held(caller, job))[1] == []
    with pytest.raises(CallFailed, match="no compile cache is kept"):
        await kernels.restore(caller, job, MAKING.name)
    await kernels.save(caller, job, MAKING)
    assert os.listdir(Path(job.workdir) / "caches") == [MAKING.name]
    assert not (Path(job.workdir) / "caches" / MAKING.name / "inductor" / "half").exists()


async def test_a_record_that_is_somebody_elses_is_no_kept_cache(
    caller: NearCaller, job: Job
) -> None:
    """The list ended with the name of the key that it had not."""
    foreign = Path(job.workdir) / "caches" / "mine"
    foreign.mkdir(parents=True)
    (foreign / "cache.json").write_text('{"name": "mine"}')
    assert (await kernels.held(caller, job))[1] == []


@pytest.mark.parametrize("name", ["", "../x", ".new-a", "a/b"])
async def test_a_name_that_leads_elsewhere_is_refused(
    caller: NearCaller, job: Job, name: str
) -> None:
    """A kept cache is a folder of `caches` and nothing else."""
    with pytest.raises(CallFailed, match="no name of a kept cache"):
        await kernels.restore(caller, job, name)


def kept(at: float, how: str = "saved", **other: str) -> Kept:
    """A kept cache, made with something else where that is said."""
    making = dataclasses.replace(MAKING, **other)
    return Kept(name=making.name, how=how, at=at, bytes=1, files=1, making=making)


def test_the_same_code_comes_first_and_another_torch_never() -> None:
    """Kernels of other code are of use, those of another torch, Triton, driver or GPU are not."""
    same, newer_code = kept(1.0), kept(2.0, code="def")
    others = [kept(3.0, **{part: "other"}) for part in ("torch", "triton", "driver", "gpu")]
    aside = kept(4.0, how="cleared")
    assert kernels.best([newer_code, same, *others, aside], MAKING) == same
    assert kernels.best([newer_code, *others, aside], MAKING) == newer_code
    assert kernels.best([*others, aside], MAKING) is None
    assert newer_code.to_json(MAKING)["differs"] == ["code"]


def test_what_is_compiled_with_is_read_from_a_fingerprint() -> None:
    """Architectures where the driver tells them, names of GPUs where not; Triton by any name."""
    packages = {"pytorch-triton": {"version": "3.6", "from": "/x"}}
    found = {"torch": "2.11", "packages": packages, "driver": "570.86", "gpus": ["NVIDIA H200"]}
    assert Making.of(found, "abc") == dataclasses.replace(MAKING, gpu="NVIDIA H200")
    assert Making.of({**found, "architectures": ["sm_90"]}, "abc") == MAKING
    assert Making.of({"error": "x"}, None) == Making()
