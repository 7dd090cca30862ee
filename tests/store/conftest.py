"""Real stores on the real clock: a SQLite file in a temporary folder, and a PostgreSQL."""

import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

import pytest

from orchestrator.clock import SystemClock
from orchestrator.store import Store
from tests.lab.postgres import Postgres


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.xdist_group("pg"))])
async def store(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Store]:
    """An empty store of each kind."""
    url = None
    if request.param == "postgres":
        server: Postgres = request.getfixturevalue("postgres")
        url = server.database()
    opened = await Store.open(tmp_path / "state", SystemClock(), url)
    if opened.leases is not None:
        await opened.leases.turn([""], {}, {})
    yield opened
    await opened.close()


@pytest.fixture
async def sqlite_store(tmp_path: Path) -> AsyncIterator[Store]:
    """An empty store in a SQLite file."""
    opened = await Store.open(tmp_path / "state", SystemClock())
    yield opened
    await opened.close()


class SmallDisk(Protocol):
    """Mounts a disk of so many bytes and files at a folder, which it makes."""

    def __call__(self, folder: Path, *, kib: int, files: int = 1000) -> None: ...


@pytest.fixture
def small_disk() -> Iterator[SmallDisk]:
    """A tmpfs that ends with the test."""
    with ExitStack() as stack:

        def mounted(folder: Path, *, kib: int, files: int = 1000) -> None:
            folder.mkdir(parents=True)
            mount = ["mount", "-t", "tmpfs", "-o", f"size={kib}k,nr_inodes={files}", "orch-test"]
            done = subprocess.run([*mount, str(folder)], capture_output=True, check=False)
            if done.returncode:
                if os.environ.get("CI") == "true":
                    pytest.fail(f"CI must be able to mount a small tmpfs: {done.stderr!r}")
                pytest.skip(f"a small tmpfs cannot be mounted here: {done.stderr!r}")
            stack.callback(subprocess.run, ["umount", "-l", str(folder)], check=True)

        yield mounted
