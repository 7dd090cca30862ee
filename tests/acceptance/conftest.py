"""The whole program as a person uses it: `orch` in a folder with an inventory, its real daemon."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import TmuxCall, XdgFolders
from tests.lab.lab import Lab
from tests.lab.receiver import Receiver
from tests.nursery.client import Nursery

PLAYED = Path(__file__).parent.parent / "lab" / "jobs" / "played"

ALERTS = """
alerts:
  sinks:
    ops: {type: webhook, url_env: ORCH_WEBHOOK_URL, secret_env: ORCH_WEBHOOK_SECRET}
  routes:
    - {match: {}, to: [ops]}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Orch:
    """`orch` in one folder, with one inventory and so with one daemon."""

    folder: Path
    env: dict[str, str] = field(repr=False)
    nursery: Nursery | None = field(repr=False, default=None)
    """whose forks the commands and the daemon are; None: each is a Python that is started"""

    def __call__(
        self, *words: str, timeout_s: float = 60.0, check: int | None = 0
    ) -> subprocess.CompletedProcess[str]:
        """Run a command; `check` is the exit code that it must have (None: any)."""
        if self.nursery is not None and self.nursery.fits(self.env):
            done = self.nursery.run(words, folder=self.folder, env=self.env, timeout_s=timeout_s)
        else:
            done = subprocess.run(
                self.argv(*words),
                capture_output=True,
                text=True,
                timeout=timeout_s,
                cwd=self.folder,
                env=self.env,
                check=False,
            )
        if check is not None:
            assert done.returncode == check, f"{words}: {done.stdout}\n{done.stderr}\n{self.log()}"
        return done

    def argv(self, *words: str) -> list[str]:
        """The command as an argv."""
        return [sys.executable, "-m", "orchestrator", *words]

    def json(self, *words: str, check: int | None = 0) -> Any:
        """What a command prints as JSON."""
        return json.loads(self(*words, "--json", check=check).stdout)

    def start(self, *words: str) -> "subprocess.Popen[str]":
        """Start a command and leave it running."""
        return subprocess.Popen(
            self.argv(*words),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self.folder,
            env=self.env,
        )

    def log(self) -> str:
        """The daemon's log."""
        logs = Path(self.env["XDG_STATE_HOME"]).glob("orch/*/daemon.log")
        return "\n".join(path.read_text() for path in logs)

    def until(self, holds: Callable[[], Any], timeout_s: float = 60.0) -> Any:
        """What `holds` gives once it is true."""
        deadline = time.monotonic() + timeout_s
        while not (found := holds()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"not within {timeout_s} s\n{self.log()}")
            time.sleep(0.05)
        return found


MakeOrch = Callable[[str], Orch]


@pytest.fixture
def make_orch(
    xdg: XdgFolders,
    receiver: Receiver,
    tmux: TmuxCall,
    short_folder: Path,
    nursery: Nursery | None,
) -> Iterator[MakeOrch]:
    """Writes an inventory and gives its `orch`; its daemon ends with the test."""
    made: list[Orch] = []

    def make(inventory: str) -> Orch:
        folder = short_folder / f"p{len(made)}"
        folder.mkdir()
        (folder / "inventory.yaml").write_text(inventory)
        orch = Orch(folder=folder, env={**os.environ, **receiver.env}, nursery=nursery)
        made.append(orch)
        return orch

    yield make
    for orch in made:
        orch("daemon", "stop", check=None)


def local_job(short_folder: Path, command: str, more: str = "") -> str:
    """An inventory whose job plays a command on this machine."""
    return f"""
version: 1
hosts:
  here: {{transport: local}}
targets:
  local: {{host: here, python: {sys.executable}}}
jobs:
  dflash:
    target: local
    package: {PLAYED}
    workdir: {short_folder}/w
    command: {command}
{more}{ALERTS}"""


def lab_job(lab: Lab, command: str, more: str = "") -> str:
    """An inventory whose job plays a command in container 200 of the lab's host."""
    return f"""{lab.inventory_yaml()}jobs:
  dflash:
    target: ct200
    package: {PLAYED}
    workdir: /srv/orch/dflash
    command: {command}
{more}{ALERTS}"""


@pytest.fixture(params=["local", pytest.param("lab", marks=pytest.mark.lab)])
def story(
    request: pytest.FixtureRequest, make_orch: MakeOrch, short_folder: Path
) -> Callable[..., Orch]:
    """`story(command)` gives an `orch` whose job runs it: on this machine, and in the lab."""
    lab = request.getfixturevalue("lab") if request.param == "lab" else None

    def tell(command: str, more: str = "") -> Orch:
        if lab is not None:
            return make_orch(lab_job(lab, command, more))
        return make_orch(local_job(short_folder, command, more))

    return tell


@pytest.fixture
def known(short_folder: Path) -> Path:
    """The known_hosts of a person who has met nobody yet."""
    return short_folder / "ssh" / "known_hosts"


@pytest.fixture
def bare_orch(xdg: XdgFolders, lab: Lab, known: Path, short_folder: Path, tmp_path: Path) -> Orch:
    """`orch` where there is no inventory; the user's ssh has a configuration of this test's own.

    ssh takes ~ from passwd and not from HOME, so a real ssh behind a word of ours reads it.
    """
    folder = short_folder / "bin"
    folder.mkdir()
    config = folder / "config"
    config.write_text(
        f"Host box\n  HostName {lab.host.address}\n  Port {lab.host.port}\n  User root\n"
        f"Host *\n  UserKnownHostsFile {known}\n  IdentityFile {lab.host.identity_file}\n"
    )
    (xdg.home / ".ssh").mkdir(mode=0o700)
    shutil.copy(config, xdg.home / ".ssh" / "config")
    wrapper = folder / "ssh"
    wrapper.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {config} "$@"\n')
    wrapper.chmod(0o755)
    return Orch(folder=tmp_path, env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"})
