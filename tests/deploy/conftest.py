"""A package to deploy and a working folder to deploy it to, both real."""

from pathlib import Path

import pytest

from orchestrator.core.model import Host, Job, Target

from .caller import NearCaller


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A small package in a folder of its own."""
    folder = tmp_path / "here" / "trainer"
    (folder / "configs").mkdir(parents=True)
    (folder / "__main__.py").write_text("print('one')\n")
    (folder / "model.py").write_text("LAYERS = 3\n" * 200)
    (folder / "configs" / "tiny.toml").write_text("steps = 5\n")
    return folder


@pytest.fixture
def workdir(tmp_path: Path) -> Path:
    """Where the far side keeps its releases; nothing is there yet."""
    return tmp_path / "there" / "work"


@pytest.fixture
def job(package: Path, workdir: Path) -> Job:
    """A job of that package and that working folder."""
    target = Target(name="local", host=Host(name="here", transport="local"))
    return Job(
        name="dflash",
        targets=(target,),
        command="python3 -m trainer",
        workdir=str(workdir),
        package=str(package),
        session="dflash",
    )


@pytest.fixture
def caller() -> NearCaller:
    """A link without the link."""
    return NearCaller()
