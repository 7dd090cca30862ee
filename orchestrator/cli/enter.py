"""attach, exec and tui: become another program that holds the terminal."""

import argparse
import os
import sys
from pathlib import Path
from typing import NoReturn

from orchestrator.api.client import quoted
from orchestrator.cli.reach import connect, location_of, running_client
from orchestrator.core.command import Command, shell_line
from orchestrator.core.errors import ApiError, NoDaemon, NoSuchRun, UsageError
from orchestrator.core.inventory import parse_inventory
from orchestrator.core.model import Inventory, Target
from orchestrator.core.runtimes import attach_argv, ssh_destination, ssh_words, wrap


def attach(options: argparse.Namespace) -> NoReturn:
    """Become `tmux attach` on the run's target; detaching leaves the run alone."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("attach needs a terminal.", remedy="`orch logs -f RUN` needs none.")
    inventory = _inventory(options)
    target, session = _session(options, inventory)
    _become(attach_argv(target, session, term=os.environ.get("TERM", "xterm-256color")))


def _session(options: argparse.Namespace, inventory: Inventory) -> tuple[Target, str]:
    """Target and tmux session of a run; a job's name is enough where no daemon runs."""
    try:
        client = running_client(location_of(options))
    except NoDaemon:
        if (job := inventory.jobs.get(options.run)) is not None:
            return job.target, job.session
        client = connect(options)
    try:
        run = client.get(f"/v1/runs/{quoted(options.run)}")
    except ApiError as error:
        # A session that orch never launched still is where the inventory says.
        if error.exit_code != NoSuchRun.exit_code or options.run not in inventory.jobs:
            raise
        job = inventory.jobs[options.run]
        return job.target, job.session
    return _target(inventory, run["target"]), run["session"]


def run_there(options: argparse.Namespace) -> NoReturn:
    """Become a command on a target, as `orch exec TARGET -- CMD...`."""
    if not options.rest:
        raise UsageError("exec needs a command.", remedy="orch exec TARGET -- nvidia-smi")
    target = _target(_inventory(options), options.target)
    on_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    there = wrap(target, Command(argv=tuple(options.rest)), on_terminal=on_terminal)
    line = shell_line(there)
    host = target.host
    if host.transport == "local":
        _become(("/bin/sh", "-c", os.fsdecode(line)))
    terminal = ("-t",) if on_terminal else ()
    words = ("ssh", *terminal, *ssh_words(host), "--", ssh_destination(host))
    _become((*words, os.fsdecode(line)))


def tui(options: argparse.Namespace) -> NoReturn:
    """Become the dashboard."""
    words: list[str] = []
    for name in ("config", "replay"):
        if said := getattr(options, name, None):
            words += [f"--{name}", said]
    if getattr(options, "read_only", False):
        words.append("--read-only")
    _become((sys.executable, "-m", "tui", *words))


def _target(inventory: Inventory, name: str) -> Target:
    if name not in inventory.targets:
        raise UsageError(
            f"The inventory has no target {name}.",
            remedy=f"It has {', '.join(sorted(inventory.targets)) or 'none'}.",
        )
    return inventory.targets[name]


def _inventory(options: argparse.Namespace) -> Inventory:
    path = location_of(options).inventory
    return parse_inventory(
        path.read_bytes(),
        path=str(path),
        folder=str(path.parent),
        exists=lambda folder: Path(folder).is_dir(),
        home=str(Path.home()),
    )


def _become(argv: tuple[str, ...]) -> NoReturn:
    sys.stdout.flush()
    try:
        os.execvp(argv[0], argv)  # noqa: S606  no shell: these are the words themselves
    except OSError as error:
        raise UsageError(f"{argv[0]}: {error.strerror}.", remedy="Is it installed?") from error
