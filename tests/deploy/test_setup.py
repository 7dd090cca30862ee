"""A release's environment: made once, linked, its failure without effect."""

import base64
import dataclasses
import hashlib
import os
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from orchestrator.core.errors import DeployError
from orchestrator.core.model import Job, Release, Setup, Target
from orchestrator.deploy import plan as plans
from orchestrator.deploy import release
from orchestrator.deploy.bundle import collect
from orchestrator.deploy.hashes import HashCache
from orchestrator.deploy.plan import DeployPlan
from orchestrator.deploy.release import DeployProgress

from .caller import NearCaller
from .whole import leftovers


@pytest.fixture
def job(job: Job) -> Job:
    """The job on a target whose interpreter is the one that runs the tests."""
    target: Target = dataclasses.replace(job.target, python=sys.executable)
    return dataclasses.replace(job, targets=(target,))


async def deployed(
    caller: NearCaller, job: Job, news: list[DeployProgress] | None = None
) -> tuple[Release, DeployPlan]:
    """Plan and deploy what is there now."""
    bundle = collect(
        job, cache=HashCache(Path(job.workdir).parent / "hashes.json"), now=time.time()
    )
    plan = await plans.plan(caller, job, bundle)
    told = news.append if news is not None else (lambda _: None)
    return await release.deploy(caller, job, bundle, plan, told), plan


def wheel(folder: Path) -> None:
    """A wheel of a package `greeting` 1.0, as small as one can be."""
    folder.mkdir()
    files = {
        "greeting.py": "WORD = 'hello'\n",
        "greeting-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: greeting\nVersion: 1.0\n",
        "greeting-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: t\n"
        "Root-Is-Purelib: true\nTag: py3-none-any\n",
    }
    rows = []
    for name, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode()
        rows.append(f"{name},sha256={digest.rstrip('=')},{len(text)}")
    rows.append("greeting-1.0.dist-info/RECORD,,")
    with zipfile.ZipFile(folder / "greeting-1.0-py3-none-any.whl", "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
        archive.writestr("greeting-1.0.dist-info/RECORD", "\n".join(rows) + "\n")


async def test_an_environment_is_made_once_from_wheels_sent_along(
    caller: NearCaller, job: Job, package: Path, workdir: Path, tmp_path: Path
) -> None:
    """Without a network: wheels travel with the release; a code change needs no second setup."""
    wheel(tmp_path / "wheels")
    (package / "requirements.txt").write_text("greeting==1.0\n")
    setup = Setup(requirements="requirements.txt", run=("echo set up in $PWD", 'test "$A" = b'))
    job = dataclasses.replace(job, setup=setup, wheelhouse=str(tmp_path / "wheels"), env={"A": "b"})
    news: list[DeployProgress] = []
    first, plan = await deployed(caller, job, news)
    assert plan.setup
    python = Path(first.path, ".venv", "bin", "python")
    said = subprocess.run(
        [python, "-c", "import greeting; print(greeting.WORD)"],
        check=True,
        capture_output=True,
        text=True,
    )
    assert said.stdout == "hello\n"
    lines = [item.line for item in news if item.stage == "setup"]
    assert f"set up in {first.path}" in lines
    kept = next((workdir / "env").glob("*.log")).read_text()
    assert f"set up in {first.path}" in kept

    (package / "model.py").write_text("LAYERS = 9\n")
    second, plan = await deployed(caller, job)
    assert not plan.setup
    assert os.path.realpath(Path(second.path, ".venv")) == os.path.realpath(
        Path(first.path, ".venv")
    )
    pruned = await release.prune(caller, dataclasses.replace(job, keep=1))
    assert pruned["removed"] == [first.digest]
    assert pruned["environments"] == []
    assert python.parent.parent.exists() is False
    assert Path(second.path, ".venv", "bin", "python").exists()


async def test_a_setup_that_fails_leaves_current_alone(
    caller: NearCaller, job: Job, package: Path, workdir: Path
) -> None:
    """The error has the end of the output, and the next deploy removes what is left."""
    first, _ = await deployed(caller, job)
    broken = dataclasses.replace(job, setup=Setup(run=("echo half way >&2; exit 3",)))
    with pytest.raises(DeployError) as failed:
        await deployed(caller, broken)
    assert "exit status 3" in str(failed.value)
    assert "half way" in str(failed.value)
    assert os.readlink(workdir / "current") == f"releases/{first.digest}"
    (package / "model.py").write_text("LAYERS = 9\n")
    await deployed(caller, job)
    assert leftovers(workdir) == []


async def test_an_interpreter_that_is_not_there_is_named_by_the_plan(
    caller: NearCaller, job: Job, workdir: Path
) -> None:
    """Before anything is sent."""
    job = dataclasses.replace(job, setup=Setup(python="python9.9"))
    with pytest.raises(DeployError, match=r"python9\.9, which does not run here"):
        await deployed(caller, job)
    assert not workdir.exists()
