"""Fingerprints of a real environment, and what is said of two of them."""

import dataclasses
import sys
from pathlib import Path
from typing import Any

import pytest

from orchestrator.core.model import Job
from orchestrator.deploy.environment import diff, fingerprint, warmed

from .caller import NearCaller


async def test_a_fingerprint_says_what_a_job_finds(
    caller: NearCaller, job: Job, tmp_path: Path
) -> None:
    """Packages, interpreter, kernel, variables without secrets, and the caches' sizes."""
    cache = tmp_path / "inductor"
    cache.mkdir()
    (cache / "kernel.so").write_bytes(bytes(5000))
    target = dataclasses.replace(job.target, python=sys.executable)
    env = {"TORCHINDUCTOR_CACHE_DIR": str(cache), "HF_HOME": "/hf", "HF_TOKEN": "secret"}
    job = dataclasses.replace(job, targets=(target,), env=env)
    found = await fingerprint(caller, job, None)
    assert found["packages"]["pytest"]["version"] == pytest.__version__
    assert found["python"] == ".".join(map(str, sys.version_info[:3]))
    assert found["caches"][str(cache)]["bytes"] == 5000
    assert found["variables"]["HF_HOME"] == "/hf"
    assert "secret" not in str(found)
    assert found["error"] is None
    assert diff(found, found) == ()


def made(**parts: Any) -> dict[str, Any]:
    """A fingerprint of few parts."""
    return {"packages": {}, "caches": {}, "variables": {}, "gpus": [], **parts}


def packages(**versions: str) -> dict[str, dict[str, str]]:
    """Packages as the probe tells them."""
    return {name: {"version": version, "from": "/x"} for name, version in versions.items()}


def test_what_changed_is_said_in_words_caches_first() -> None:
    """The night of the story: flashinfer came, triton went back, the cache was cleared."""
    before = made(
        packages=packages(triton="3.6", torch="2.11"),
        caches={"/cache": {"bytes": 4_100_000_000, "files": 9}, "/other": None},
        variables={"OMP_NUM_THREADS": "8"},
        driver="570.1",
    )
    after = made(
        packages=packages(triton="3.5", torch="2.11", flashinfer="0.6"),
        caches={"/cache": None, "/other": {"bytes": 5, "files": 1}},
        driver="575.2",
        gpus=["NVIDIA H200"],
    )
    changes = diff(before, after)
    assert [str(change) for change in changes] == [
        "compile cache /cache 4.1 GB -> 0 B",
        "driver 570.1 -> 575.2",
        "gpus NVIDIA H200 appeared",
        "flashinfer 0.6 appeared",
        "triton 3.6 -> 3.5",
        "OMP_NUM_THREADS 8 is gone",
    ]
    assert [change.part for change in changes if change.alarming] == ["cache"]


def test_a_run_that_began_cold_differs_from_one_that_found_caches() -> None:
    """Its first steps compiled: the later one's speed is not the change of code."""
    cold = made(caches={"/c": None, "/t": {"bytes": 7, "files": 1}})
    warm = made(caches={"/c": {"bytes": 14_500_000, "files": 9}, "/t": {"bytes": 9, "files": 1}})
    changes = list(warmed(cold, warm))
    assert [str(one) for one in changes] == ["compile cache /c at launch 0 B -> 14.5 MB"]
    assert not changes[0].alarming
    assert [*warmed(warm, warm), *warmed(warm, cold), *warmed(cold, cold)] == []


def test_a_package_of_another_place_is_a_change() -> None:
    """Of the same version it shadows the other one; an environment made anew is no change."""
    before, after = packages(torch="2.11"), packages(torch="2.11")
    before["torch"]["from"], after["torch"]["from"] = "/usr/lib/python3", "/root/.local/lib"
    assert [str(one) for one in diff(made(packages=before), made(packages=after))] == [
        "torch 2.11 of /usr/lib/python3 -> 2.11 of /root/.local/lib"
    ]
    linked = "/srv/orch/dflash/releases/{}/trainer/.venv/lib/python3.12/site-packages"
    for place in ("/srv/orch/dflash/env/{}/lib/python3.12/site-packages", linked):
        before["torch"]["from"] = place.format("0123456789abcdef")
        after["torch"]["from"] = place.format("fedcba9876543210")
        assert diff(made(packages=before), made(packages=after)) == ()


def test_a_cache_that_grew_and_an_interpreter_that_was_silent_are_no_change() -> None:
    """Every run fills the cache; packages that could not be asked for have not gone."""
    before = made(caches={"/c": {"bytes": 100, "files": 1}}, packages=packages(torch="2.11"))
    after = made(caches={"/c": {"bytes": 900, "files": 5}}, packages={})
    assert diff(before, after) == ()
