"""What setup is made of: which files, and whether the package itself is among it."""

import dataclasses
import time
from pathlib import Path
from typing import Any

import pytest

from orchestrator.core.errors import UsageError
from orchestrator.core.model import Job, Setup
from orchestrator.deploy.bundle import collect
from orchestrator.deploy.hashes import HashCache


def told(job: Job, setup: Setup) -> dict[str, Any]:
    """The setup as it travels with the manifest."""
    job = dataclasses.replace(job, setup=setup)
    hashes = HashCache(Path(job.workdir).parent / "hashes.json")
    found = collect(job, cache=hashes, now=time.time()).manifest.setup
    assert found is not None
    return found


@pytest.mark.parametrize(
    "command",
    [
        'pip install ".[dev]"',
        "pip install '.'",
        "pip install -e.",
        "pip install -e '.[x]'",
        "pip install -e sub",
        "pip install --editable=sub/x",
        'pip install -e "$PWD"',
        "pip install 'name @ ./sub'",
        "pip install name@file:sub",
        "pip install sub/x dist.whl",
        "python -m pip install ./",
        "python -m pip install --upgrade \\\n  torch .",
        "(cd sub && pip install .)",
        "bash -ec 'pip install torch; pip install .'",
        "echo it's; uv pip install .",
        "uv pip install -e '.[x]'",
        "uv sync",
        "uv --quiet sync --frozen",
        "python setup.py develop",
        "poetry install --no-interaction",
        "python -m pdm sync",
        "maturin develop --release",
        "pip install -r local.txt",
        "uv pip sync --quiet local.txt",
        "pip-sync local.txt",
        "cd sub && pip install -r made-there.txt",
    ],
)
def test_a_command_that_installs_the_package_itself_is_seen(
    job: Job, package: Path, command: str
) -> None:
    """However it is quoted, and whichever of the usual tools does it."""
    (package / "local.txt").write_text("torch\n-e .\n")
    assert told(job, Setup(run=(command,))).get("of_package") is True


@pytest.mark.parametrize(
    "command",
    [
        "pip install torch --index-url https://x.test/whl/cpu",
        "pip install 'name[x]>=1.0' > sub/log 2>&1",
        "pip install torch; echo .",
        "pip install -e git+https://x.test/y.git",
        "pip install 'name @ git+ssh://git@x.test/y.git'",
        "pip install /opt/wheels/name.whl ~/name",
        "pip install --no-index -f ./wheels --find-links=./wheels name",
        "uv pip install --python .venv/bin/python torch",
        "uv pip install -r ./plain.txt",
        "uv pip sync ./plain.txt",
        "pip install -c https://x.test/limits.txt -r $LISTS/x.txt name",
        "conda install -c pytorch torch",
        "python -m trainer.prepare ./sub",
    ],
)
def test_a_command_that_installs_nothing_of_the_package_is_no_reason_to_make_it_anew(
    job: Job, package: Path, command: str
) -> None:
    """An environment takes minutes: an edit of the code makes none."""
    (package / "plain.txt").write_text("torch\n")
    assert "of_package" not in told(job, Setup(run=(command,)))


@pytest.mark.parametrize(
    ("line", "local"),
    [
        ("sub/dir", True),
        ("pkg @ ./x", True),
        ("pkg @ file:x", True),
        ("pkg @ file:///${PROJECT_ROOT}/x", True),
        (".[dev] ; python_version > '3'", True),
        ("file:./x", True),
        ('-e "./x"', True),
        ("-e x#egg=name", True),
        ("--editable=.", True),
        ("wheels/name-1.0-py3-none-any.whl", True),
        ("-e git+https://x.test/y.git#egg=y", False),
        ("pkg @ https://x.test/y.whl", False),
        ("pkg @ file:///opt/x", False),
        ("/opt/wheels/name.whl", False),
        ("--find-links ./wheels", False),
        ("name==1.0 --hash=sha256:ab  # of ./x", False),
        ("name ; sys_platform == 'linux'", False),
    ],
)
def test_a_line_of_the_requirements_that_is_of_the_package_is_seen(
    job: Job, package: Path, line: str, local: bool
) -> None:
    """And one that comes from elsewhere is not taken for it."""
    (package / "requirements.txt").write_text(f"torch\n{line}\n")
    assert told(job, Setup(requirements="requirements.txt")).get("of_package", False) is local


@pytest.mark.parametrize(
    ("source", "local"),
    [
        ('{ editable = "." }', False),
        ('{ virtual = "." }', False),
        ('{ registry = "https://x.test/simple" }', False),
        ('{ editable = "libs/x" }', True),
        ('{ directory = "../x" }', True),
        ('{ path = "/opt/x.whl" }', False),
    ],
)
def test_a_lock_file_with_a_member_in_the_package_is_of_the_package(
    job: Job, package: Path, source: str, local: bool
) -> None:
    """The project itself is not installed from it."""
    (package / "uv.lock").write_text(f'[[package]]\nname = "x"\nsource = {source}\n')
    (package / "pyproject.toml").touch()
    found = told(job, Setup(requirements="uv.lock"))
    assert found["included"] == ["pyproject.toml"]
    assert found.get("of_package", False) is local


def test_linked_requirements_are_followed_to_the_files_that_they_are(
    job: Job, package: Path
) -> None:
    """A change of these makes the environment anew; what they include is sought beside the link."""
    (package / "reqs").mkdir()
    (package / "reqs" / "base.txt").write_text("-r more.txt\n")
    (package / "requirements.txt").symlink_to("reqs/base.txt")
    (package / "linked").symlink_to("reqs")
    (package / "more.txt").symlink_to("linked/../linked/most.txt")
    (package / "reqs" / "most.txt").write_text("greeting\n-r requirements.txt\n")
    found = told(job, Setup(requirements="requirements.txt"))
    assert found["included"] == ["reqs/base.txt", "reqs/most.txt"]


def test_a_link_to_what_is_not_shipped_is_named_with_its_target(job: Job, package: Path) -> None:
    """Also one that leads in a circle."""
    (package / "requirements.txt").symlink_to("base.txt")
    why = r"names requirements\.txt \(a link to base\.txt\), which is not in the package"
    with pytest.raises(UsageError, match=why):
        told(job, Setup(requirements="requirements.txt"))
    (package / "base.txt").write_text("-r round.txt\n")
    (package / "round.txt").symlink_to("round.txt")
    with pytest.raises(UsageError, match=r"requirements\.txt needs round\.txt"):
        told(job, Setup(requirements="requirements.txt"))


def test_what_the_installer_finds_by_itself_is_not_sought_in_the_package(
    job: Job, package: Path
) -> None:
    """Variables, addresses and absolute paths; a quoted name is one of the package."""
    (package / "base.txt").write_text("greeting\n")
    lines = ("${LISTS}/x.txt", "https://x.test/x.txt", "/etc/lists/x.txt", '"base.txt" # all')
    text = "".join(f"-r {line}\n" for line in lines)
    (package / "requirements.txt").write_text(text)
    found = told(job, Setup(requirements="requirements.txt"))
    assert found["included"] == ["base.txt"]


def test_files_that_a_command_names_are_inputs(job: Job, package: Path) -> None:
    """With what they include; what is missing there is for the command itself to say."""
    (package / "extra.txt").write_text("-r base.txt\n")
    (package / "base.txt").write_text("greeting\n")
    (package / "ready.sh").write_text("true\n")
    run = ("pip install -qr extra.txt", "sh ./ready.sh gone.txt")
    found = told(job, Setup(run=run))
    assert found["included"] == ["base.txt", "extra.txt", "ready.sh"]
    assert "of_package" not in found
