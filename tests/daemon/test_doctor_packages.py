"""What doctor says of packages: each gets its line, whatever becomes of the others."""

import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import cast

from orchestrator.core.model import Host, Job, Target
from orchestrator.daemon.doctor_packages import package_checks
from orchestrator.daemon.parts import Parts
from orchestrator.deploy.hashes import HashCache

TARGET = Target(name="here", host=Host(name="here", transport="local"))


def parts_of(folder: Path, *packages: Path, cache: str = "hashes.json") -> Parts:
    """As much of a daemon as is asked, with a job for each package, named as its folder."""
    jobs = {
        one.name: Job(
            name=one.name,
            targets=(TARGET,),
            package=str(one),
            workdir=str(folder / "w"),
            command="sleep 1",
        )
        for one in packages
    }
    made = SimpleNamespace(
        inventory=SimpleNamespace(jobs=jobs),
        packages=SimpleNamespace(hashes=HashCache(folder / cache)),
        clock=SimpleNamespace(now=lambda: time.time() + 10),
        location=SimpleNamespace(inventory=folder / "inventory.yaml"),
    )
    return cast("Parts", made)


def package(folder: Path) -> Path:
    """A package of one small file."""
    folder.mkdir()
    (folder / "train.py").write_text("pass\n")
    return folder


async def test_a_package_that_is_not_there_stands_beside_the_good_ones(tmp_path: Path) -> None:
    """Each job has its check, by name."""
    good = package(tmp_path / "good")
    checks = await package_checks(parts_of(tmp_path, tmp_path / "gone", good))
    assert [(one.name, one.ok) for one in checks] == [
        ("package of gone", False),
        ("package of good", True),
    ]
    assert all(one.remedy for one in checks if not one.ok)


async def test_gigabytes_that_were_never_read_are_left_to_a_deploy(tmp_path: Path) -> None:
    """They are said, and how they are read; the small package behind them is checked."""
    large, small = package(tmp_path / "large"), package(tmp_path / "small")
    weights = large / "weights.bin"
    weights.touch()
    os.truncate(weights, 3 * 1024**3 // 2)
    first, second = await package_checks(parts_of(tmp_path, large, small))
    assert (first.ok, first.critical, second.ok) == (False, False, True)
    assert "1.5 GiB of it were never read" in first.text
    assert "orch deploy --dry-run large" in str(first.remedy)


async def test_a_cache_that_cannot_be_written_fails_no_check(tmp_path: Path) -> None:
    """As on a full disk, about which doctor has a line of its own."""
    good = package(tmp_path / "good")
    parts = parts_of(tmp_path, good, cache="good/train.py/hashes.json")
    (check,) = await package_checks(parts)
    assert check.ok, check
