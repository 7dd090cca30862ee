"""Options of the commands that try signatures, compare runs, and tidy up; the rest: parser.py."""

import argparse

from orchestrator.cli.command import Command, add_json


def _rules_test(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", metavar="FILE", nargs="*", help="logs; - is standard input")
    add_json(parser)


MORE: dict[str, Command] = {
    "rules": Command(
        "",
        "",
        "signatures, built-in and the inventory's own",
        parts={"test": Command("rules", "test", "check their samples, or logs", _rules_test)},
    ),
}
