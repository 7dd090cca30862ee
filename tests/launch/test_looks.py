"""Ports, data, driver and libraries before a launch, on this machine."""

import dataclasses
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.core.errors import Check
from orchestrator.core.model import Host, Job, PreflightPolicy, Run, RunState, Target
from orchestrator.launch.preflight import preflight
from orchestrator.probe import looks
from tests.deploy.caller import NearCaller

VERSION = "570.86.10"


async def checks_of(
    tmp_path: Path, env: dict[str, str] | None = None, **policy: object
) -> list[Check]:
    """All checks of a job with that policy."""
    job = Job(
        name="dflash",
        targets=(Target(name="local", host=Host(name="here", transport="local")),),
        command="true",
        workdir=str(tmp_path / "work"),
        session="orch-no-such-session",
        env=env or {},
        preflight=dataclasses.replace(PreflightPolicy(), **policy),  # type: ignore[arg-type]
    )
    run = Run(
        id="dflash-1",
        uid="u1",
        job="dflash",
        target="local",
        number=1,
        state=RunState.PENDING,
        attempt=1,
        session=job.session,
        directory=f"{job.workdir}/runs/dflash-1.u1",
    )
    return list(await preflight(NearCaller(), job, run, None, now=time.time(), cold_start_s=250.0))


def named(checks: list[Check], name: str) -> list[Check]:
    """The checks of one name."""
    return [check for check in checks if check.name == name]


@pytest.fixture
def taken() -> Iterator[int]:
    """A port on which this program listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


async def test_a_taken_port_is_refused_and_its_holder_named(tmp_path: Path, taken: int) -> None:
    """Those of the inventory and the one of MASTER_PORT; a free one passes."""
    for found in (
        await checks_of(tmp_path, ports=(taken,)),
        await checks_of(tmp_path, {"MASTER_PORT": str(taken)}),
    ):
        (check,) = named(found, "ports")
        assert (check.ok, check.critical) == (False, True)
        assert f"port {taken} is taken: PID {os.getpid()} (" in check.text


async def test_a_port_whose_connections_have_ended_is_free(tmp_path: Path) -> None:
    """A connection that waits for its last packets holds no listener back."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        caller = socket.create_connection(("127.0.0.1", port))
        answering, _ = server.accept()
        answering.close()  # the side that closes first waits
        caller.close()
    (check,) = named(await checks_of(tmp_path, ports=(port,)), "ports")
    assert check.ok, check.text


async def test_data_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    """Missing and unreadable paths are each named; a folder, a file and a FIFO can be looked at."""
    (tmp_path / "data").mkdir()
    (tmp_path / "file").write_text("x")
    os.mkfifo(tmp_path / "fifo")
    good = tuple(str(tmp_path / name) for name in ("data", "file", "fifo"))
    (check,) = named(await checks_of(tmp_path, data_paths=good), "data")
    assert check.ok, check.text
    paths = (*good, str(tmp_path / "none"), str(tmp_path / "file" / "below"))
    missing, below = named(await checks_of(tmp_path, data_paths=paths), "data")
    assert missing.text == f"{tmp_path}/none cannot be read: No such file or directory"
    assert below.text == f"{tmp_path}/file/below cannot be read: Not a directory"
    assert (missing.critical, below.critical) == (True, True)
    assert missing.remedy is not None


async def test_an_empty_cache_says_what_it_cost_last(tmp_path: Path) -> None:
    """A warning with the time of the last such start; none where there are kernels."""
    cache = tmp_path / "inductor"
    env = {"TORCHINDUCTOR_CACHE_DIR": str(cache), "HOME": str(tmp_path)}
    (check,) = named(await checks_of(tmp_path, env), "cold_cache")
    assert not check.critical
    assert "no compiled kernels in " in check.text
    assert check.text.endswith("the first steps compile; last time it took 4 min 10 s")
    (cache / "kernel.so").write_bytes(b"x")
    assert named(await checks_of(tmp_path, env), "cold_cache") == []


def library(folder: Path, name: str, version: str) -> None:
    """A library as a driver installs it: a link to the file with the version in its name."""
    folder.mkdir(exist_ok=True)
    (folder / f"{name.removesuffix('.1')}.{version}").write_bytes(b"\x7fELF")
    (folder / name).symlink_to(f"{name.removesuffix('.1')}.{version}")


def test_a_librarys_version_is_that_of_its_file(tmp_path: Path) -> None:
    """The first folder that has it counts; a link to nothing and a plain name tell none."""
    library(tmp_path / "a", "libcuda.so.1", VERSION)
    library(tmp_path / "b", "libcuda.so.1", "550.54.15")
    folders = [str(tmp_path / name) for name in ("none", "a", "b")]
    assert looks.library_version("libcuda.so.1", folders) == VERSION
    assert looks.library_version("libnvidia-ml.so.1", folders) is None
    (tmp_path / "a" / f"libcuda.so.{VERSION}").unlink()
    assert looks.library_version("libcuda.so.1", folders) == "550.54.15"


@pytest.mark.parametrize(
    ("cuda", "nvml", "needed", "ok", "critical"),
    [
        (VERSION, VERSION, True, True, True),
        ("550.54.15", VERSION, False, False, True),
        (None, None, True, False, True),
        (None, None, False, False, False),
        (VERSION, None, True, False, False),
    ],
)
def test_driver_and_libraries_of_two_versions_are_refused(
    cuda: str | None, nvml: str | None, needed: bool, ok: bool, critical: bool
) -> None:
    """CUDA cannot begin with them; libraries that are missing matter where GPUs are asked for."""
    libraries = {"libcuda.so.1": cuda, "libnvidia-ml.so.1": nvml}
    (check,) = looks.match(VERSION, libraries, needed=needed)
    assert (check["ok"], check["critical"]) == (ok, critical)
    if not ok:
        assert f"driver is {VERSION}; libcuda.so.1 is" in check["text"] or nvml is None
        assert check["remedy"]
    assert looks.match(None, libraries, needed=needed) == []
