"""What a command is to the parser, and the options that many of them share."""

import argparse
from collections.abc import Callable
from typing import NamedTuple

INCIDENT_HELP = "an id, a prefix, or a RUN (its newest incident)"
JOB_HELP = "may be left out where there is one"
RUN_HELP = "an id, its number or prefix, a job (its newest run), @1 or -1 (the newest), @2 ..."

KINDS = {
    "RUN": "runs",
    "JOB": "jobs",
    "TARGET": "targets",
    "HOST": "hosts",
    "INCIDENT": "incidents",
    "SILENCE": "silences",
    "SINK": "sinks",
    "SIGNATURE": "signatures",
    "FROM": "places",
    "TO": "places",
    "EXPR": "moments",
}
"""A word's name in the help -> what it may be."""


class Command(NamedTuple):
    """A command: `module` in orchestrator.cli has the function `function(options) -> int`."""

    module: str
    function: str
    help: str
    add: Callable[[argparse.ArgumentParser], None] = lambda _: None
    takes_rest: str = ""
    """How the usage shows the words after `--`; empty where none belong to it."""
    parts: "dict[str, Command] | None" = None
    """Commands below it, as in `orch daemon start`."""


def add_json(parser: argparse.ArgumentParser) -> None:
    """--json."""
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def given_name(text: str) -> str:
    """A name that is not empty: an empty one would name all of them in a path of the API."""
    if not text.strip():
        raise argparse.ArgumentTypeError("a name must not be empty")
    return text


def seconds(text: str) -> float:
    """A time in seconds that is a number and not negative."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no time in seconds, such as 30")
    return value


def port(text: str) -> int:
    """A TCP port that something may listen on."""
    if not text.isascii() or not text.isdecimal() or not 0 < int(text) < 65536:
        raise argparse.ArgumentTypeError(f"{text!r} is no port from 1 to 65535")
    return int(text)


def port_or_any(text: str) -> int:
    """A TCP port, or 0 for whichever is free."""
    return 0 if text == "0" else port(text)


def add_run(parser: argparse.ArgumentParser) -> None:
    """The word RUN."""
    parser.add_argument("run", metavar="RUN", type=given_name, help=RUN_HELP)


def add_env(parser: argparse.ArgumentParser) -> None:
    """--env K=V, as often as wanted."""
    parser.add_argument(
        "--env", metavar="K=V", action="append", type=_variable, default=[], help="a variable more"
    )


def _variable(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not (name.isascii() and name.isidentifier()):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not NAME=VALUE with a NAME of letters, digits and underscores"
        )
    return name, value
