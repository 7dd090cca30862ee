"""Options of the commands that try signatures, compare runs, and tidy up; the rest: parser.py."""

import argparse

from orchestrator.cli.command import Command, add_json


def _rules_test(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", metavar="FILE", nargs="*", help="logs; - is standard input")
    add_json(parser)


def _label(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not name or not sign:
        raise argparse.ArgumentTypeError(f"{text!r} is not LABEL=VALUE, such as job=dflash")
    return name, value


def _duration(text: str) -> float:
    from orchestrator.core.inventory.units import parse_duration  # loads pydantic

    seconds = parse_duration(text)
    if not seconds:
        raise argparse.ArgumentTypeError(f"{text!r} is no duration such as 30m, 2h or 1d")
    return seconds


def _silence_add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "match", metavar="LABEL=VALUE", nargs="*", type=_label, help="job=dflash, alertname=..."
    )
    parser.add_argument("--everything", action="store_true", help="every alert there is")
    parser.add_argument(
        "--for", dest="duration", metavar="TIME", type=_duration, help="30m, 2h; else for good"
    )
    parser.add_argument("-m", "--message", metavar="WHY", default="", help="why nobody must hear")
    add_json(parser)


def _silence_ls(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-a", "--all", action="store_true", help="those that are over too")
    add_json(parser)


def _silence_expire(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("silence", metavar="ID", help="a silence's id, or its beginning")
    add_json(parser)


MORE: dict[str, Command] = {
    "silence": Command(
        "",
        "",
        "alerts that nobody wants to hear",
        parts={
            "add": Command("silence", "add", "keep alerts back", _silence_add),
            "ls": Command("silence", "ls", "list silences", _silence_ls),
            "expire": Command("silence", "expire", "end a silence", _silence_expire),
        },
    ),
    "rules": Command(
        "",
        "",
        "signatures, built-in and the inventory's own",
        parts={"test": Command("rules", "test", "check their samples, or logs", _rules_test)},
    ),
}
