"""Every command and option of `orch`; knows which module runs a command and imports none of them.

Only the command at hand gets its options built, since building all of them costs as much as the
rest of a reading command; help and completion build all.
"""

import argparse
import sys
from collections.abc import Sequence
from typing import NoReturn

from orchestrator.cli.command import (
    INCIDENT_HELP,
    JOB_HELP,
    RUN_HELP,
    Command,
    add_env,
    add_json,
    add_run,
    given_name,
    seconds,
)
from orchestrator.cli.options import MORE, moment
from orchestrator.cli.options_itself import ITSELF
from orchestrator.cli.options_reach import REACH, add_target

EPILOG = """\
with no command, on a terminal: the dashboard

exit codes: 0 ok; 1 own failure; 2 usage or configuration; 3 a critical finding; 4 a host could
not be seen; 100 run failed; 102 no such run; 103 run stopped; 124 timeout; 130 interrupted"""


class Parser(argparse.ArgumentParser):
    """argparse, with its message on one line."""

    def error(self, message: str) -> NoReturn:
        """Print usage and the message, and leave with 2."""
        self.print_usage(sys.stderr)
        self.exit(2, f"{self.prog}: {message}{self._missing(message)}\n")

    def _missing(self, message: str) -> str:
        """What to write where a word was left out: what may stand there, or where that is told."""
        if not message.startswith("the following arguments are required"):
            return ""
        named = message.rpartition(": ")[2].split(", ")
        for action in self._actions:
            if action.metavar == named[0] and action.help:
                return f" ({action.help})"
        return f"; `{self.prog} --help` lists them"


class _Version(argparse.Action):
    """The version is looked up where it is asked for alone."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        """Print it and leave with 0."""
        from importlib.metadata import version

        print(f"orch {version('orch')}")
        parser.exit()


def _status(parser: argparse.ArgumentParser) -> None:
    add_json(parser)
    parser.add_argument("--watch", action="store_true", help="print again whenever it changes")
    parser.add_argument("--since", metavar="CURSOR", type=int, help="only what changed after it")


def _ps(parser: argparse.ArgumentParser) -> None:
    add_json(parser)
    parser.add_argument("-a", "--all", action="store_true", help="all runs, not the newest 20")
    parser.add_argument("--job", metavar="JOB", help="runs of one job")


def _show(parser: argparse.ArgumentParser) -> None:
    add_run(parser)
    add_json(parser)


def _logs(parser: argparse.ArgumentParser) -> None:
    add_run(parser)
    add_target(parser)
    parser.add_argument("-f", "--follow", action="store_true", help="go on as the run writes")
    parser.add_argument(
        "-n", "--tail", dest="lines", metavar="N", type=int, help="only the last N lines"
    )
    parser.add_argument("--attempt", metavar="N", type=int, help="an earlier attempt")
    parser.add_argument("--grep", metavar="RE", help="only lines that match")
    parser.add_argument("--rank", metavar="R", type=int, help="only lines of one rank")
    parser.add_argument(
        "--since", metavar="T", type=moment, help="10m ago, 14:30, 2026-01-31T14:30 or unix seconds"
    )
    parser.add_argument("--raw", action="store_true", help="the stored bytes as they were")
    parser.add_argument("--jsonl", action="store_true", help="one JSON object a message (with -f)")


def _wait(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "run", metavar="RUN", nargs="?", type=given_name, help=f"{RUN_HELP}; any, for `incident`"
    )
    add_json(parser)
    parser.add_argument(
        "--until",
        default="ended",
        metavar="EXPR",
        help="ended (the default), crashed, incident (one that is not acknowledged), step:N, "
        "phase:NAME, log:RE, or a metric: 'loss<2', 'loss>9'",
    )
    parser.add_argument("--timeout", metavar="S", type=seconds, help="seconds; then exit 124")


def _deploy(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("jobs", metavar="JOB", nargs="*", help="all jobs where none is named")
    parser.add_argument("--dry-run", action="store_true", help="only show the plan")
    add_json(parser)


def _launch(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", metavar="JOB", nargs="?", help=JOB_HELP)
    parser.add_argument("-m", "--message", metavar="WHY", default="", help="what this run tries")
    parser.add_argument("--detach", action="store_true", help="return once it is launched")
    parser.add_argument(
        "--replace", action="store_true", help="stop the old run, wait for its GPUs, launch"
    )
    parser.add_argument("--no-deploy", action="store_true", help="keep what is deployed")
    add_env(parser)
    parser.add_argument("--force", action="store_true", help="launch against a preflight refusal")
    add_json(parser)


def _stop(parser: argparse.ArgumentParser) -> None:
    add_run(parser)
    add_target(parser)
    parser.add_argument(
        "--grace", metavar="S", type=seconds, help="seconds from SIGTERM to SIGKILL"
    )
    add_json(parser)


def _incidents(parser: argparse.ArgumentParser) -> None:
    add_json(parser)
    parser.add_argument("-a", "--all", action="store_true", help="resolved ones too")
    parser.add_argument("--run", metavar="RUN", help="of one run")


def _incident(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("incident", metavar="INCIDENT", type=given_name, help=INCIDENT_HELP)
    add_json(parser)


def _explain(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("incident", metavar="INCIDENT", type=given_name, help=INCIDENT_HELP)
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--json", action="store_true", help="print one JSON document")
    group.add_argument("--markdown", action="store_true", help="to paste into an issue")


def _diagnose(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", metavar="FILE", nargs="+", help="a log; - is standard input")
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--json", action="store_true", help="print one JSON document")
    group.add_argument("--jsonl", action="store_true", help="one JSON object a file")


COMMANDS: dict[str, Command] = {
    "deploy": Command("ship", "deploy", "ship the package; plan first", _deploy),
    "run": Command(
        "launch",
        "run",
        "deploy what changed, check, launch and follow",
        _launch,
        takes_rest="[-- ARG ...]",
    ),
    "stop": Command("stop", "stop", "end a run and what is left of it", _stop),
    "status": Command("status", "status", "targets, runs and open incidents", _status),
    "ps": Command("status", "ps", "runs, newest first", _ps),
    "show": Command("show", "show", "one run, whole", _show),
    "logs": Command("logs", "logs", "what a run wrote", _logs),
    "top": Command("status", "top", "GPUs of the fleet", add_json),
    "wait": Command("status", "wait", "return when something has happened to a run", _wait),
    "incidents": Command("incidents", "incidents", "what went wrong", _incidents),
    "explain": Command(
        "incidents", "explain", "what a colleague would say of an incident", _explain
    ),
    "ack": Command("incidents", "ack", "say that somebody cares", _incident),
    "diagnose": Command("diagnose", "diagnose", "read any log; needs no daemon", _diagnose),
    **MORE,
    **REACH,
    **ITSELF,
}


def build_parser(only: str | None = None) -> Parser:
    """The parser, with the options of every command or of `only` one."""
    parser = Parser(
        prog="orch",
        description="Deploy, launch, watch and diagnose training runs in remote containers.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    _add_global(parser)
    parser.add_argument(
        "--version", action=_Version, nargs=0, default=argparse.SUPPRESS, help="print the version"
    )
    chosen = {only: COMMANDS[only]} if only in COMMANDS else COMMANDS
    _add_commands(parser, chosen, required=False)
    return parser


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The options of a command line; leaves with 2 and the usage where it is wrong.

    `rest` has the words after `--` where they are for a program; elsewhere they are names as any.
    `function` is None where no command was named.
    """
    words, rest = list(argv), []
    if "--" in words:
        at = words.index("--")
        words, rest = words[:at], words[at + 1 :]
    command = _command_word(words)
    if rest and not _takes_rest(command, words):
        words, rest = [*words, "--", *rest], []
    parser = build_parser(command)
    if command is not None and command not in COMMANDS:
        parser.error(f"there is no command {command!r}{_nearest(command)}")
    options, unknown = parser.parse_known_args(words)
    if unknown:
        words_of_the_program = "; what is meant for the program goes behind --"
        options.parser.error(
            f"unrecognized arguments: {' '.join(unknown)}"
            f"{words_of_the_program if options.takes_rest else ''}"
        )
    options.rest = rest
    return options


def _command_word(words: Sequence[str]) -> str | None:
    skip = False
    for word in words:
        if not skip and not word.startswith("-"):
            return word
        skip = word == "--config" and not skip
    return None


def _takes_rest(command: str | None, words: Sequence[str]) -> bool:
    """Whether words behind `--` go to a program."""
    found = COMMANDS.get(command or "")
    while found is not None and found.parts is not None:
        parts = found.parts
        found = next((parts[word] for word in words if word in parts), None)
    return found is not None and bool(found.takes_rest)


def _nearest(word: str) -> str:
    import difflib  # only for a word that is none

    close = difflib.get_close_matches(word, COMMANDS, n=1)
    return f"; did you mean {close[0]}?" if close else "; `orch --help` lists them"


def _add_global(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config",
        metavar="FILE",
        default=argparse.SUPPRESS,
        help="the inventory (else ORCH_CONFIG, else inventory.yaml here or above)",
    )


def _add_commands(
    parser: argparse.ArgumentParser, commands: dict[str, Command], *, required: bool
) -> None:
    parser.set_defaults(module="", function="", takes_rest="", parser=parser)
    below = parser.add_subparsers(metavar="COMMAND", title="commands", required=required)
    for name, command in commands.items():
        added = below.add_parser(
            name, help=command.help, description=command.help, allow_abbrev=False
        )
        _add_global(added)
        if command.parts is not None:
            _add_commands(added, command.parts, required=True)
            continue
        command.add(added)
        if command.takes_rest:
            usage = added.format_usage().removeprefix("usage: ").rstrip()
            added.usage = f"{usage} {command.takes_rest}"
            added.epilog = "words behind -- go to the program"
        added.set_defaults(
            module=command.module,
            function=command.function,
            takes_rest=command.takes_rest,
            parser=added,
        )
