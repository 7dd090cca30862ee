"""adopt: a tmux session or a PID that somebody else started becomes a run, from now on."""

import argparse
from typing import Any

from orchestrator.cli import output
from orchestrator.cli.launch import followed
from orchestrator.cli.reach import connect
from orchestrator.cli.targets import target_of
from orchestrator.core.errors import DaemonError


def adopt(options: argparse.Namespace) -> int:
    """Adopt and follow it, as `run` does with what it launched."""
    target_of(options, options.target)  # a misspelt name is refused before anything is started
    client = connect(options)
    body = {
        "target": options.target,
        "what": options.what,
        "take_pipe": options.take_pipe,
        "why": options.message,
    }
    stored: dict[str, Any] | None = None
    for message in client.stream("POST", "/v1/adopt", body):
        if message["kind"] == "stored":
            stored = message["run"]
        elif message["kind"] == "warning":
            output.note(f"warning: {message['text']}")
        elif message["kind"] == "adopting" and not options.json:
            output.note(f"adopting process {message['pid']}: {message['command']}")
    if stored is None:
        raise DaemonError("The daemon adopted nothing and did not say why.")
    return followed(client, stored, options)
