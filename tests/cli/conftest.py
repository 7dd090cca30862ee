"""A project folder with an inventory, and a canned daemon for it."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestrator.api.location import locate
from orchestrator.cli.main import main
from tests.cli.canned import CannedBackend, CannedDaemon
from tests.conftest import XdgFolders

INVENTORY = """\
version: 1
hosts: {here: {transport: local}}
targets: {ct200: {host: here}}
jobs:
  dflash: {target: ct200, workdir: /srv/orch/dflash, command: "true"}
"""


@pytest.fixture
def project(short_folder: Path, xdg: XdgFolders, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with an inventory in it and a user's folders of its own."""
    folder = short_folder / "p"
    folder.mkdir()
    (folder / "inventory.yaml").write_text(INVENTORY)
    monkeypatch.chdir(folder)
    for name in ("ORCH_CONFIG", "NO_COLOR", "ORCH_WEBHOOK_URL"):
        monkeypatch.delenv(name, raising=False)
    return folder


@pytest.fixture
def canned(project: Path) -> Iterator[CannedBackend]:
    """A daemon for the project that answers from a table."""
    with CannedDaemon(locate(project / "inventory.yaml", os.environ)) as daemon:
        yield daemon.backend


class Ran:
    """What a command in this process printed, and its exit code."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err


@pytest.fixture
def orch(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """`orch("ps", "--json")` in this process."""

    def call(*words: str) -> Ran:
        try:
            code = main(words)
        except SystemExit as left:
            code = int(left.code or 0)
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    return call


def spawn(*words: str, **options: Any) -> subprocess.Popen[bytes]:
    """`orch WORDS` as a process of its own, its output in pipes."""
    return subprocess.Popen(
        [sys.executable, "-m", "orchestrator", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        **options,
    )


GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture
def golden() -> Callable[[str, str], None]:
    """`golden(name, text)`: the text is what the file says; ORCH_UPDATE_GOLDEN=1 rewrites it."""

    def check(name: str, text: str) -> None:
        file = GOLDEN / f"{name}.txt"
        if os.environ.get("ORCH_UPDATE_GOLDEN") == "1":
            file.write_text(text, encoding="utf-8")
        assert text == file.read_text(encoding="utf-8")

    return check
