"""A job's secret is where the job can read it, and nowhere else: files, processes, tmux, API."""

import json
import os
import socket
import sys
import tarfile
from pathlib import Path

import pytest

from tests.acceptance.conftest import ALERTS, MakeOrch
from tests.conftest import TmuxCall
from tests.lab.receiver import Receiver

SECRET = "hf_PZ3kQ9vWxT7mB2nLr8"

JOB = """
version: 1
hosts:
  here: {{transport: local}}
targets:
  local: {{host: here, python: {python}}}
jobs:
  dflash:
    target: local
    package: {package}
    workdir: {workdir}
    command: python3 -m quiet {there}
    secrets: [HF_TOKEN]
{alerts}"""

QUIET = """
import os, pathlib, sys, time
pathlib.Path(sys.argv[1]).write_text(str(len(os.environ["HF_TOKEN"])))
time.sleep(600)
"""


TALKATIVE = """
import os
print("logged in with", os.environ["HF_TOKEN"], flush=True)
raise PermissionError("no access to the repo with " + os.environ["HF_TOKEN"])
"""


def holding(folder: Path) -> list[Path]:
    """Files below a folder that hold the secret."""
    files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    return [path for path in files if SECRET.encode() in path.read_bytes()]


@pytest.fixture
def nursery() -> None:
    """Command lines and environments are searched: each command is a Python that starts."""


def seen_in_processes(kind: str) -> list[int]:
    """PIDs whose `cmdline` or `environ` hold the secret."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                held = SECRET.encode() in (entry / kind).read_bytes()
            except OSError:  # it ended meanwhile
                continue
            found += [int(entry.name)] * held
    return found


def runs_in(pid: int) -> bool:
    """Whether a process belongs to a run."""
    return b"ORCH_RUN_ID=dflash-1" in Path(f"/proc/{pid}/environ").read_bytes()


def overheard(daemon: str, path: str) -> bytes:
    """What a daemon answers on its socket, as it goes over the wire."""
    said = bytearray()
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(daemon)
        line.sendall(f"GET {path} HTTP/1.1\r\nHost: orch\r\nConnection: close\r\n\r\n".encode())
        while chunk := line.recv(65536):
            said += chunk
    return bytes(said)


def test_on_the_wire_a_secret_is_in_the_launch_alone(
    make_orch: MakeOrch, short_folder: Path, tmux: TmuxCall
) -> None:
    """All that the daemon and its probes say to each other is overheard, from deploy to stop."""
    package, wire = short_folder / "quiet", short_folder / "wire"
    for folder in (package, wire):
        folder.mkdir()
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(QUIET)
    overhearing = wire / "python"
    overhearing.write_text(
        f'#!/bin/sh\ntee -a {wire}/in.$$ | {sys.executable} "$@" | tee -a {wire}/out.$$\n'
    )
    overhearing.chmod(0o755)
    there = short_folder / "there"
    inventory = JOB.format(
        python=overhearing,
        package=package,
        workdir=short_folder / "w",
        there=there,
        alerts=ALERTS,
    )
    orch = make_orch(inventory)
    orch.env["HF_TOKEN"] = SECRET
    orch("run", "--detach")
    orch.until(lambda: there.exists() and there.read_text())
    orch("stop", "dflash-1", "--grace", "1")

    said = b"".join(path.read_bytes() for path in wire.glob("in.*"))
    assert b'"op":"release_commit"' in said
    telling = [line for line in said.split(b"\n") if SECRET.encode() in line]
    assert [json.loads(line)["op"] for line in telling] == ["launch"]
    answers = b"".join(path.read_bytes() for path in wire.glob("out.*"))
    assert b'"kind":"hello"' in answers
    assert SECRET.encode() not in answers


def test_a_secret_that_is_printed_is_covered(
    make_orch: MakeOrch, short_folder: Path, receiver: Receiver
) -> None:
    """In the log that is kept, what is shown of it, the crash's evidence, its alert and bundle."""
    package = short_folder / "quiet"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(TALKATIVE)
    orch = make_orch(
        JOB.format(
            python=sys.executable,
            package=package,
            workdir=short_folder / "w",
            there="x",
            alerts=ALERTS,
        )
    )
    orch.env["HF_TOKEN"] = SECRET
    shown = [
        orch("run", check=100).stdout,
        orch("logs", "@1").stdout,
        orch("logs", "@1", "--raw").stdout,
    ]
    shown += [orch("explain", "@1").stdout, orch("show", "@1", "--json").stdout]
    assert all(f"with {'*' * len(SECRET)}" in text for text in shown[:3])
    alerts = [request.body.decode() for request in receiver.wait_for()]
    assert "no access to the repo with ***" in alerts[0]
    archive = orch.folder / "bundle.tar.gz"
    orch("bundle", "@1", "-o", str(archive))
    with tarfile.open(archive) as bundle:
        files = [file for one in bundle if (file := bundle.extractfile(one)) is not None]
        shown += [file.read().decode("utf-8", "replace") for file in files]
    assert not any(SECRET in text for text in (*shown, *alerts))
    assert holding(Path(orch.env["XDG_STATE_HOME"])) == []


def test_a_secret_is_in_the_run_and_nowhere_else(
    make_orch: MakeOrch, short_folder: Path, tmux: TmuxCall
) -> None:
    """Scanned: all that was written, every process, tmux, the API's answers and its log."""
    package = short_folder / "quiet"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(QUIET)
    workdir, there = short_folder / "w", short_folder / "there"
    orch = make_orch(
        JOB.format(
            python=sys.executable, package=package, workdir=workdir, there=there, alerts=ALERTS
        )
    )
    orch.env["HF_TOKEN"] = SECRET
    orch("run", "--detach")
    orch.until(lambda: there.exists() and there.read_text())
    assert there.read_text() == str(len(SECRET))

    assert seen_in_processes("cmdline") == []
    daemon = orch.json("daemon", "status")

    def holders() -> set[int]:
        return {pid for pid in seen_in_processes("environ") if not runs_in(pid)}

    # The daemon of the test before may still be leaving.
    orch.until(lambda: holders() <= {daemon["pid"]})
    asked = (
        ("show-environment", "-g"),
        ("show-environment", "-t", "dflash"),
        ("list-panes", "-a", "-F", "#{pane_start_command}"),
    )
    assert not any(SECRET in tmux(*words).stdout for words in asked)

    paths = ("/v1/snapshot", "/v1/runs", "/v1/runs/dflash-1", "/v1/daemon", "/metrics")
    answers = [overheard(daemon["socket"], path) for path in paths]
    assert all(answer.startswith(b"HTTP/1.1 200") for answer in answers)
    assert not any(SECRET.encode() in answer for answer in answers)

    orch("stop", "dflash-1")
    folders = (workdir, orch.folder, Path(orch.env["XDG_STATE_HOME"]), package)
    assert [path for folder in folders for path in holding(folder)] == []
    assert SECRET not in orch.log()
