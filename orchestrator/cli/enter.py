"""attach and tui: become another program that holds the terminal."""

import argparse
import os
import sys
from typing import NoReturn

from orchestrator.api.client import quoted
from orchestrator.cli.reach import connect, location_of, running_client
from orchestrator.cli.targets import inventory_of, target_of, where
from orchestrator.core.errors import ApiError, NoDaemon, NoSuchRun, OrchError, UsageError
from orchestrator.core.model import ENDS, Target
from orchestrator.core.runtimes import attach_argv


def attach(options: argparse.Namespace) -> NoReturn:
    """Become `tmux attach` on the run's target; detaching leaves the run alone."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("attach needs a terminal.", remedy="`orch logs -f RUN` needs none.")
    target, session = _session(options)
    become(attach_argv(target, session, term=os.environ.get("TERM", "xterm-256color")))


def _session(options: argparse.Namespace) -> tuple[Target, str]:
    """Target and tmux session of a run; a job's name is enough where no daemon runs."""
    if options.target is not None:
        return _session_there(target_of(options, options.target), options.run)
    inventory = inventory_of(options) or _no_inventory(options)
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
    if run["detached"] and run["state"] not in ENDS:
        raise OrchError(
            f"{run['id']} is alive, and its tmux session {run['session']} is gone.",
            remedy=f"`orch logs -f {run['id']}` shows what it writes.",
        )
    return where(options, run), run["session"]


def _session_there(target: Target, words: str) -> tuple[Target, str]:
    from orchestrator.cli.direct import on_target, session_named

    found = on_target(target, lambda transport: session_named(transport, target, words))
    return target, found.name


def _no_inventory(options: argparse.Namespace) -> NoReturn:
    raise UsageError(
        "There is no inventory here, so no run has a name.",
        remedy=f"Say where its session is: orch attach --target HOST/pct:ID {options.run}",
    )


def tui(options: argparse.Namespace) -> NoReturn:
    """Become the dashboard."""
    words: list[str] = []
    for name in ("config", "replay"):
        if said := getattr(options, name, None):
            words += [f"--{name}", said]
    if getattr(options, "read_only", False):
        words.append("--read-only")
    if (port := getattr(options, "web", None)) is not None:
        words += ["--web", port] if port else ["--web"]
    become((sys.executable, "-m", "tui", *words))


def become(argv: tuple[str, ...]) -> NoReturn:
    """Replace this program with another; UsageError where it is not there."""
    sys.stdout.flush()
    try:
        os.execvp(argv[0], argv)  # noqa: S606  no shell: these are the words themselves
    except OSError as error:
        raise UsageError(f"{argv[0]}: {error.strerror}.", remedy="Is it installed?") from error
