"""A fork of the nursery is to a test what a Python that was started is, but for what it costs."""

import contextlib
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.acceptance.conftest import MakeOrch, Orch, local_job, make_orch
from tests.nursery.client import Nursery

__all__ = ["make_orch"]

SAME = ("Umask", "SigBlk", "SigIgn", "SigCgt", "NoNewPrivs", "CoreDumping", "Seccomp", "CapEff")


@pytest.mark.parametrize(
    "words",
    [
        ("--version",),
        ("--help",),
        ("status",),
        ("nonsense",),
        ("check", "--json"),
        ("diagnose", "none.log"),
        ("explain",),
        ("daemon", "status", "--json"),
    ],
)
def test_a_command_says_and_ends_as_a_started_python_does(
    words: tuple[str, ...], nursery: Nursery, tmp_path: Path, xdg: object
) -> None:
    """The same two texts and the same exit code, of commands that work and of some that do not."""
    env = dict(os.environ)
    forked = nursery.run(words, folder=tmp_path, env=env, timeout_s=60)
    argv = [sys.executable, "-m", "orchestrator", *words]
    started = subprocess.run(
        argv, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60, check=False
    )
    assert (forked.returncode, forked.stdout, forked.stderr) == (
        started.returncode,
        started.stdout,
        started.stderr,
    )
    assert forked.stdout or forked.stderr


@pytest.fixture
def two(make_orch: MakeOrch, short_folder: Path) -> tuple[Orch, Orch]:
    """An `orch` of forks, and one of Pythons that are started, each with its daemon."""
    text = local_job(short_folder, "sh -c 'echo up; exec sleep 600'")
    forked, started = make_orch(text), make_orch(text.replace("dflash:", "other:"))
    return forked, replace(started, nursery=None)


def status(pid: int) -> dict[str, str]:
    """What the kernel says of a process, by name."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def open_files(pid: int) -> list[str]:
    """The files, sockets and pipes that it has open, without the numbers of the latter."""
    links = []
    for one in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # it is closed meanwhile
            links.append(os.readlink(one))
    return sorted(link.partition(":[")[0].partition("/tmp/")[0] for link in links)


def seen(pid: int) -> dict[str, object]:
    """What others see of a process."""
    return {
        "leads": os.getsid(pid) == os.getpgid(pid) == pid,
        "folder": os.readlink(f"/proc/{pid}/cwd"),
        "status": {name: status(pid)[name] for name in SAME},
        "files": open_files(pid),
        "limits": Path(f"/proc/{pid}/limits").read_text(),
    }


@pytest.mark.skipif(os.getuid() != 0, reason="a daemon shows its files to root alone")
def test_a_daemon_is_a_process_as_any(two: tuple[Orch, Orch]) -> None:
    """Session, folder, signals, umask and open files are those of a daemon that was started."""
    for orch in two:
        orch("daemon", "start")
    forked, started = (orch.json("daemon", "status")["pid"] for orch in two)
    # What the last call left is closed a moment later.
    two[0].until(lambda: seen(forked) == seen(started), timeout_s=30)
    assert b"tests.nursery" in Path(f"/proc/{forked}/cmdline").read_bytes()
    assert b"tests.nursery" not in Path(f"/proc/{started}/cmdline").read_bytes()


def test_a_daemon_that_cannot_start_says_why(make_orch: MakeOrch) -> None:
    """Its last words and its exit code come through, as those of a started one."""
    orch = make_orch("version: 1\nhosts: 7\n")
    forked, started = (one("status", check=2) for one in (orch, replace(orch, nursery=None)))
    assert (forked.stdout, forked.stderr) == (started.stdout, started.stderr)
    assert "hosts" in forked.stderr


def test_a_command_that_lasts_too_long_is_killed(
    two: tuple[Orch, Orch], nursery: Nursery, tmp_path: Path
) -> None:
    """TimeoutExpired, as of subprocess.run; the nursery and the daemon live on."""
    forked, _ = two
    run = forked.json("run", "--detach")["run"]
    living = nursery.forks()
    os.mkfifo(tmp_path / "log")
    with pytest.raises(subprocess.TimeoutExpired):
        forked("diagnose", str(tmp_path / "log"), timeout_s=1)
    forked.until(lambda: nursery.forks() <= living, timeout_s=20)
    forked("stop", run)


def test_what_python_reads_as_it_starts_asks_for_one(nursery: Nursery) -> None:
    """Another locale, or a switch of Python's, is nothing that a fork could have."""
    assert nursery.fits({**os.environ, "HOME": "/nowhere", "TZ": "Asia/Tokyo"})
    assert not nursery.fits({**os.environ, "LC_ALL": "C"})
    assert not nursery.fits({**os.environ, "PYTHONUTF8": "1"})
