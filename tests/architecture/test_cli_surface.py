"""Commands and options are what people and scripts hold on to: a change of them is a diff here."""

import argparse
import importlib
import inspect
import os
from collections.abc import Iterator
from pathlib import Path

from orchestrator.cli.command import Command
from orchestrator.cli.parser import COMMANDS, build_parser, parse

GOLDEN = Path(__file__).parent / "cli_surface.txt"


def surface(parser: argparse.ArgumentParser, path: str) -> Iterator[str]:
    """One line for each command with its options and positional words."""
    words, below = [], []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            below += [(f"{path} {name}", child) for name, child in action.choices.items()]
        elif action.dest not in {"help", "config"}:
            words.append("/".join(action.option_strings) or str(action.metavar or action.dest))
    if not below:
        yield " ".join([path, *words])
    for name, child in below:
        yield from surface(child, name)


def commands(table: dict[str, Command]) -> Iterator[Command]:
    """Every command that runs something."""
    for command in table.values():
        if command.parts is None:
            yield command
        else:
            yield from commands(command.parts)


def test_commands_and_options_are_pinned() -> None:
    """ORCH_UPDATE_GOLDEN=1 rewrites the file; the change belongs into CHANGELOG.md too."""
    text = "\n".join(surface(build_parser(), "orch")) + "\n"
    if os.environ.get("ORCH_UPDATE_GOLDEN") == "1":
        GOLDEN.write_text(text, encoding="utf-8")
    assert text == GOLDEN.read_text(encoding="utf-8")


def test_every_command_has_its_function() -> None:
    """The table of commands names functions that are there and take the options."""
    for command in commands(COMMANDS):
        module = importlib.import_module(f"orchestrator.cli.{command.module}")
        parameters = inspect.signature(getattr(module, command.function)).parameters
        assert list(parameters) == ["options"], command


def test_global_option_stands_before_or_after() -> None:
    """--config means the same on either side of the command."""
    for words in (["--config", "x", "ps"], ["ps", "--config", "x"], ["ps", "--config=x"]):
        assert parse(words).config == "x"


def test_words_after_two_dashes_are_the_programs() -> None:
    """What follows -- is never read as an option of orch."""
    options = parse(["run", "job", "-m", "x", "--", "--json", "-m", "y"])
    assert (options.rest, options.json, options.message) == (["--json", "-m", "y"], False, "x")
