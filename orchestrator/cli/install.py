"""daemon install: a systemd user unit, so that the daemon is there after a reboot."""

import argparse
import getpass
import os
import shutil
import subprocess
import sys
from pathlib import Path

from orchestrator.api.client import Client
from orchestrator.api.location import Location, daemon_socket
from orchestrator.cli import output
from orchestrator.cli.daemon import stop
from orchestrator.cli.reach import location_of
from orchestrator.core.errors import DaemonError, NoDaemon

SYSTEMCTL_WITHIN_S = 60


def install(options: argparse.Namespace) -> int:
    """Write the unit, start it where systemd answers, and say what else it needs."""
    from orchestrator.daemon.inventory_reading import read_inventory
    from orchestrator.daemon.unit import unit_name, unit_text

    location = location_of(options)
    read_inventory(location.inventory)  # a bad one would restart the unit for ever
    text = unit_text(location, sys.executable, os.environ)
    if options.print:
        output.say(*text.splitlines())
        return 0
    name, path = unit_name(location), _units() / unit_name(location)
    _write(path, text)
    output.say(f"wrote {path}")
    if not _answers():
        output.say(
            "no systemd answers for this user here; where one does:",
            f"  systemctl --user daemon-reload && systemctl --user enable --now {name}",
        )
    else:
        _stop_running(options, location)
        _systemctl("daemon-reload")
        _systemctl("enable", "--now", name)
        output.say(f"started {name}; `systemctl --user disable --now {name}` undoes it")
    output.say(*_needs())
    return 0


def _write(path: Path, text: str) -> None:
    """Whoever may write a unit runs as this user: nobody else does, whatever the umask says."""
    before = os.umask(0o077)
    os.umask(before | 0o022)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_suffix(".new")
        fresh.write_text(text, encoding="utf-8")
        fresh.replace(path)
    finally:
        os.umask(before)


def _units() -> Path:
    base = os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "systemd" / "user"


def _answers() -> bool:
    """Whether there is a systemd for this user to talk to."""
    if shutil.which("systemctl") is None:
        return False
    try:
        return _run("show-environment").returncode == 0
    except subprocess.TimeoutExpired:
        return False


def _stop_running(options: argparse.Namespace, location: Location) -> None:
    """The unit's daemon needs the lock that one started by hand holds; runs go on meanwhile."""
    try:
        Client(daemon_socket(location)).get("/v1/daemon")
    except NoDaemon:
        return
    stop(options)


def _systemctl(*words: str) -> None:
    done = _run(*words)
    if done.returncode != 0:
        raise DaemonError(
            f"systemctl --user {' '.join(words)} failed: {done.stderr.strip()}",
            remedy="The unit is written; put right what it says and call it again.",
        )


def _run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["systemctl", "--user", *words],
        capture_output=True,
        text=True,
        timeout=SYSTEMCTL_WITHIN_S,
        check=False,
    )


def _needs() -> list[str]:
    """What a unit lacks that a shell has."""
    lines = [
        f"lingering: a user's units end at the last logout. `loginctl enable-linger"
        f" {getpass.getuser()}` keeps them, and starts them at boot.",
        "values of secrets and sink addresses: put them into $XDG_CONFIG_HOME/orch/env (mode"
        " 0600); a unit has none of your shell's variables.",
    ]
    if os.environ.get("SSH_AUTH_SOCK"):
        lines.append(
            "ssh-agent: a unit does not see it. Name an identity_file in the inventory, or"
            " `systemctl --user import-environment SSH_AUTH_SOCK`."
        )
    return lines
