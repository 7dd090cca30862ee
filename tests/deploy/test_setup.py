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

from orchestrator.core.errors import DeployError, UsageError
from orchestrator.core.model import Job, Release, Setup, Target
from orchestrator.deploy import plan as plans
from orchestrator.deploy import release
from orchestrator.deploy.bundle import collect
from orchestrator.deploy.hashes import HashCache
from orchestrator.deploy.plan import DeployPlan
from orchestrator.deploy.release import DeployProgress
from orchestrator.probe import manifest as wire
from orchestrator.probe.listing import Listing
from orchestrator.probe.setup import Surroundings, digest_of

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
    assert "exit status 3; `current` is what it was." in str(failed.value)
    assert "half way" in str(failed.value)
    assert os.readlink(workdir / "current") == f"releases/{first.digest}"
    (package / "model.py").write_text("LAYERS = 9\n")
    await deployed(caller, job)
    assert leftovers(workdir) == []


async def test_a_setup_that_fails_at_first_names_its_command_in_short(
    caller: NearCaller, job: Job, package: Path
) -> None:
    """There was no release before it, and the whole command stands in the output alone."""
    (package / "requirements.txt").write_text("./nowhere\n")
    broken = dataclasses.replace(job, setup=Setup(requirements="requirements.txt"))
    with pytest.raises(DeployError) as failed:
        await deployed(caller, broken)
    head, _, output = failed.value.message.partition("\n")
    why = "setup failed: python -m pip install: exit status 1; there is no `current` yet."
    assert head.endswith(why)
    assert " -m pip install --disable-pip-version-check -r requirements.txt\n" in output


async def test_an_interpreter_that_is_not_there_is_named_by_the_plan(
    caller: NearCaller, job: Job, workdir: Path
) -> None:
    """Before anything is sent."""
    job = dataclasses.replace(job, setup=Setup(python="python9.9"))
    with pytest.raises(DeployError, match=r"python9\.9, which does not run here"):
        await deployed(caller, job)
    assert not workdir.exists()


async def planned(caller: NearCaller, job: Job) -> DeployPlan:
    """What a deploy of what is there now would do."""
    cache = HashCache(Path(job.workdir).parent / "hashes.json")
    return await plans.plan(caller, job, collect(job, cache=cache, now=time.time()))


async def test_a_file_that_the_requirements_include_is_one_of_setups_inputs(
    caller: NearCaller, job: Job, package: Path
) -> None:
    """By -r or -c, from the including file's folder on; what the job's code says is none."""
    (package / "needs").mkdir()
    (package / "requirements.txt").write_text("# all\n-r needs/base.txt\n-r https://x.test/y.txt\n")
    (package / "needs" / "base.txt").write_text("--constraint=limits.txt\n")
    (package / "needs" / "limits.txt").write_text("greeting<2\n")
    job = dataclasses.replace(job, setup=Setup(requirements="needs/base.txt"))
    await deployed(caller, job)
    (package / "model.py").write_text("LAYERS = 9\n")
    assert not (await planned(caller, job)).setup
    (package / "needs" / "limits.txt").write_text("greeting<3\n")
    assert (await planned(caller, job)).setup
    job = dataclasses.replace(job, setup=Setup(requirements="requirements.txt"))
    included = collect(job, cache=HashCache(package / "h"), now=time.time()).manifest.setup
    assert included is not None
    assert included["included"] == ["needs/base.txt", "needs/limits.txt"]


@pytest.mark.parametrize(
    ("setup", "line", "made_anew"),
    [
        (Setup(requirements="requirements.txt"), "-e .", True),
        (Setup(requirements="requirements.txt"), "./sub[all]", True),
        (Setup(requirements="requirements.txt"), "greeting.extra==1.0", False),
        (Setup(run=("python -m pip install --no-deps -e .",)), "", True),
        (Setup(run=("uv pip install .",)), "", True),
        (Setup(run=("pip install greeting ; echo .",)), "", False),
    ],
)
async def test_what_setup_installs_of_the_package_itself_is_made_with_each_release(
    caller: NearCaller, job: Job, package: Path, setup: Setup, line: str, made_anew: bool
) -> None:
    """Else a changed release would run an older one's code, and fail once that is pruned."""
    (package / "requirements.txt").write_text(f"{line}\n")
    job = dataclasses.replace(job, setup=setup)
    names = []
    for number in range(2):
        (package / "model.py").write_text(f"LAYERS = {number}\n")
        told = collect(job, cache=HashCache(package.parent / "h"), now=time.time())
        encoded = wire.join(told.manifest.header(), told.lines)
        names.append(digest_of(Listing.of(encoded), Surroundings({}, [])))
    assert (names[0] != names[1]) is made_anew


@pytest.mark.parametrize(
    ("named", "content", "why"),
    [
        (
            "requirements.txt",
            "-r gone.txt\n",
            r"requirements\.txt needs gone\.txt, which is not in",
        ),
        ("requirements.txt", "-c ../x.txt\n", r"needs \.\./x\.txt, which is not in the package"),
        ("poetry.lock", "", "neither pip nor uv installs.*poetry export"),
        ("uv.lock", "", r"uv\.lock needs pyproject\.toml"),
    ],
)
async def test_what_setup_cannot_be_made_of_is_refused_here(
    job: Job, package: Path, named: str, content: str, why: str
) -> None:
    """Before anything is asked or sent."""
    (package / named).write_text(content)
    job = dataclasses.replace(job, setup=Setup(requirements=named))
    with pytest.raises(UsageError, match=why):
        collect(job, cache=HashCache(package / "h"), now=time.time())


UV = """#!/bin/sh
# A stand-in for uv: makes environments and installs as uv does, by the interpreter beside it.
echo "uv $*"
here=$(dirname "$0")
case "$1 $2" in
"venv "*) while [ $# -gt 1 ]; do shift; done; exec "$here/python3" -m venv "$1" ;;
"export "*) while [ $# -gt 1 ]; do shift; done; echo greeting==1.0 > "$1" ;;
"pip install") shift 4; exec "$VIRTUAL_ENV/bin/python" -m pip install "$@" ;;
esac
"""


async def test_a_lock_file_of_uv_is_installed_where_uv_is(
    caller: NearCaller, job: Job, package: Path, tmp_path: Path
) -> None:
    """From the wheels sent along; where there is no uv the deploy says what to do."""
    wheel(tmp_path / "wheels")
    (package / "uv.lock").write_text("version = 1\n")
    (package / "pyproject.toml").write_text("[project]\nname = 'x'\nversion = '1'\n")
    setup = Setup(requirements="uv.lock")
    job = dataclasses.replace(job, setup=setup, wheelhouse=str(tmp_path / "wheels"))
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "python3").symlink_to(sys.executable)
    target = dataclasses.replace(job.target, python=str(folder / "python3"))
    job = dataclasses.replace(job, targets=(target,))
    with pytest.raises(DeployError, match=r"uv is not there.*uv export"):
        await deployed(caller, job)
    (folder / "uv").write_text(UV)
    (folder / "uv").chmod(0o755)
    made, _ = await deployed(caller, job)
    python = Path(made.path, ".venv", "bin", "python")
    subprocess.run([python, "-c", "import greeting"], check=True)


async def test_where_no_index_can_be_reached_the_way_without_one_is_named(
    caller: NearCaller, job: Job
) -> None:
    """A command that ended by a signal is said to have."""
    say = "echo Temporary failure in name resolution; kill -9 $$"
    with pytest.raises(DeployError, match=r"(?s)ended by signal 9.*`wheelhouse: DIR`"):
        await deployed(caller, dataclasses.replace(job, setup=Setup(run=(say,))))
