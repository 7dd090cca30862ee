"""`orch daemon install`: the unit's text, and what is asked of systemd."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Ran
from tests.conftest import XdgFolders

Orch = Callable[..., Ran]


@pytest.fixture
def asked(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for systemctl that writes down what it is asked, first in PATH."""
    folder = project / "bin"
    folder.mkdir()
    said = project / "asked"
    script = folder / "systemctl"
    script.write_text(f'#!/bin/sh\necho "$@" >> {said}\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return said


def test_unit_is_written_and_started(asked: Path, orch: Orch, xdg: XdgFolders) -> None:
    """The unit runs this inventory's daemon, outlives nobody's runs, and lingering is explained."""
    ran = orch("daemon", "install")
    assert ran.code == 0, ran.err
    units = list((xdg.config / "systemd" / "user").iterdir())
    assert len(units) == 1
    text = units[0].read_text()
    assert f'"--config" "{asked.parent.resolve()}/inventory.yaml" "daemon" "run"' in text
    assert "KillMode=process\n" in text
    assert f'Environment="XDG_STATE_HOME={xdg.state}"\n' in text
    assert asked.read_text().splitlines() == [
        "--user show-environment",
        "--user daemon-reload",
        f"--user enable --now {units[0].name}",
    ]
    assert "loginctl enable-linger" in ran.out
    if shutil.which("systemd-analyze"):
        checked = subprocess.run(
            ["systemd-analyze", "verify", "--user", units[0]], capture_output=True, check=False
        )
        assert b"rror" not in checked.stderr, checked.stderr


def test_without_systemd_the_unit_is_there_all_the_same(
    asked: Path, orch: Orch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no systemd answers, the commands for later are said, and nothing is started."""
    script = asked.parent / "bin" / "systemctl"
    script.write_text("#!/bin/sh\nexit 1\n")
    ran = orch("daemon", "install")
    assert ran.code == 0
    assert "no systemd answers for this user here" in ran.out
    assert "systemctl --user enable --now orch-" in ran.out


def test_print_writes_nothing(asked: Path, orch: Orch, xdg: XdgFolders) -> None:
    """--print is for a look; a bad inventory is refused before anything."""
    assert orch("daemon", "install", "--print").out.startswith("[Unit]\n")
    assert not (xdg.config / "systemd").exists()
    (asked.parent / "inventory.yaml").write_text("version: 2\n")
    assert orch("daemon", "install").code == 2
    assert not (xdg.config / "systemd").exists()


def test_paths_that_systemd_would_read_otherwise_are_quoted(
    asked: Path, orch: Orch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blanks, percent signs, quotes and dollars in a path reach the daemon as they are."""
    folder = asked.parent / 'a "b" 100% $x'
    folder.mkdir()
    (folder / "inventory.yaml").write_text("version: 1\n")
    text = orch("--config", str(folder / "inventory.yaml"), "daemon", "install", "--print").out
    assert '/a \\"b\\" 100%% $$x/inventory.yaml" "daemon" "run"' in text
