"""completion: a script for a shell, made from the parser."""

import argparse

from orchestrator.cli.parser import build_parser


def completion(options: argparse.Namespace) -> int:
    """Print the completion script of a shell."""
    import shtab

    print(shtab.complete(build_parser(), shell=options.shell))
    return 0
