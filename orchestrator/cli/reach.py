"""From the words of a command to a client of the right daemon, started where it must be.

A daemon that this starts gets an unnamed file for its last words: where it dies before it listens,
they are shown and nothing is left behind. Parses no inventory.
"""

import argparse
import os
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from orchestrator.api.client import Client
from orchestrator.api.location import Location, daemon_socket, find_inventory, locate
from orchestrator.cli import output
from orchestrator.core.errors import DaemonError, NoDaemon, OrchError

START_DEADLINE_S = 30.0
_POLL_S = 0.02


class StartFailed(OrchError):  # noqa: N818  says what happened
    """The daemon died before it listened; `words` is what it printed, its errors whole."""

    def __init__(self, words: str, exit_code: int) -> None:
        super().__init__(
            f"The daemon ended with {exit_code} before it listened.",
            remedy=None if words.strip() else "`orch daemon run` shows what it does.",
        )
        self.words = words.strip()
        self.exit_code = exit_code or 1


def location_of(options: argparse.Namespace) -> Location:
    """The places of the inventory that the options mean; UsageError where there is none."""
    said = getattr(options, "config", None)
    return locate(find_inventory(said, os.environ, Path.cwd()), os.environ)


def running_client(location: Location) -> Client:
    """A client of the daemon that runs; NoDaemon where none does."""
    client = Client(daemon_socket(location))
    _pass_values(client)
    return client


def connect(options: argparse.Namespace) -> Client:
    """A client of the inventory's daemon, which is started where none runs."""
    location = location_of(options)
    try:
        return running_client(location)
    except NoDaemon:
        return start(location)


def begin(
    options: argparse.Namespace, path: str, body: dict[str, Any]
) -> tuple[Client, Iterator[dict[str, Any]]]:
    """A client, and the messages of a request that needs no value of this environment.

    The daemon is at work on it already while it is told of the values that are here.
    """
    location = location_of(options)
    client = Client(daemon_socket(location))
    try:
        messages = client.stream("POST", path, body)
    except NoDaemon:
        client = start(location)
        return client, client.stream("POST", path, body)
    _pass_values(client)
    return client, messages


def warn_if_outdated(daemon: Mapping[str, Any]) -> None:
    """Say of a daemon (a DaemonView) that it runs other code than this command."""
    if daemon.get("outdated"):
        output.note(
            "warning: the daemon runs older code than is installed; `orch daemon stop`, "
            "then any command starts the new one; runs go on"
        )


def start(location: Location) -> Client:
    """Start the daemon in the background and wait until it listens.

    Raises StartFailed with the daemon's own words where it dies first.
    """
    import subprocess
    import tempfile

    argv = [sys.executable, "-m", "orchestrator", "--config", str(location.inventory)]
    with tempfile.TemporaryFile() as words:
        child = subprocess.Popen(
            [*argv, "daemon", "run"],
            stdin=subprocess.DEVNULL,
            stdout=words,
            stderr=words,
            cwd=Path(__file__).parents[2],  # where `-m orchestrator` finds itself, installed or not
            start_new_session=True,
        )
        deadline = time.monotonic() + START_DEADLINE_S
        died_at: float | None = None
        while time.monotonic() < deadline:
            try:
                return running_client(location)
            except NoDaemon:
                time.sleep(_POLL_S)
            # Another command may have started one at the same moment and won the lock.
            if child.poll() is not None:
                died_at = died_at or time.monotonic()
                if time.monotonic() - died_at > 1.0 or child.returncode == 2:
                    words.seek(0)
                    raise StartFailed(words.read().decode("utf-8", "replace"), child.returncode)
    raise DaemonError(
        f"The daemon (process {child.pid}) does not listen after {START_DEADLINE_S:.0f} s.",
        remedy=f"Its log is {location.log}; `orch daemon run` shows what it does.",
    )


def _pass_values(client: Client) -> None:
    """Give the daemon what this environment has of the values that the inventory wants.

    What a person exports now is the newest word; where it replaces another, that is said.
    """
    client.daemon = client.daemon_view()
    wants = client.daemon.get("wants") or []
    values = {name: os.environ[name] for name in wants if os.environ.get(name)}
    if values:
        for name in client.call("PUT", "/v1/environment", values).get("replaced") or ():
            output.note(f"{name}: taken from this shell, it was another value before")
