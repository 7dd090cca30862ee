"""Whatever a text tells a person to type is a command that the parser takes."""

import argparse
import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.cli.parser import COMMANDS, build_parser, parse
from orchestrator.core.detect.signatures import load

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
SOURCES = [
    path for folder in ("orchestrator", "tui") for path in sorted((ROOT / folder).rglob("*.py"))
]
_QUOTED = re.compile(r"`orch ([^`]+)`")
_INDENTED = re.compile(r"^ {4,}orch (.+)$", re.MULTILINE)
_END = re.compile(r"\s#.*|\s*[|>;&].*| \.\.\.$")
_GIVEN = " 1"
"""Stands for what a text fills in: a word of its own, since some begin with a space."""


def phrases(text: str) -> Iterator[str]:
    """Commands in backticks, which may break over a line."""
    for found in _QUOTED.finditer(text):
        yield " ".join(found[1].split())


def literals(path: Path) -> Iterator[str]:
    """Texts of a module that are no docstrings, what is filled in being one word.

    A remedy that is a command and nothing else stands in backticks, as in a sentence.
    """
    tree = ast.parse(path.read_text())
    said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    remedies = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.keyword) and node.arg == "remedy"
    }
    for node in ast.walk(tree):
        if id(node) in said:
            continue
        text = ""
        if isinstance(node, ast.JoinedStr):
            parts = node.values
            text = "".join(
                str(part.value) if isinstance(part, ast.Constant) else _GIVEN for part in parts
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
        alone = id(node) in remedies and text.startswith("orch ") and not text.endswith(".")
        yield f"`{text.partition(' (')[0]}`" if alone else text


def words_of(phrase: str) -> list[str]:
    """The words, without a comment, a pipe, or the signs for `may be left out` and `more`."""
    plain = _END.sub("", f" {phrase}").strip()
    plain = re.sub(r"\|[A-Za-z-]+|\.\.\.|\u2026", "", plain)
    try:
        words = shlex.split(plain.replace("[", " ").replace("]", " "))
    except ValueError:
        words = plain.split()
    return [word for word in words if word]


def fault(words: list[str]) -> str | None:
    """What the real parser has against them; a word that is left out is none."""
    words = words[: words.index("--")] if "--" in words else words
    parser: argparse.ArgumentParser = build_parser()
    known = COMMANDS
    rest = list(words)
    while rest and not rest[0].startswith("-"):
        if rest[0] not in known:
            return f"no command {rest[0]}"
        below = next(
            action for action in parser._actions if isinstance(action, argparse._SubParsersAction)
        )
        parser = below.choices[rest[0]]
        parts = known[rest.pop(0)].parts
        if parts is None:
            break
        known = parts
    options = parser._option_string_actions
    for word in rest:
        name = word.partition("=")[0]
        if re.match(r"--?[A-Za-z]", name) and name not in options:
            return f"no option {name}"
    return None


def test_each_command_in_the_documentation_is_one() -> None:
    """Pages name commands and options that there are."""
    wrong = [
        f"{page.name}: orch {phrase}: {why}"
        for page in PAGES
        for phrase in (
            *phrases(page.read_text()),
            *(found[1] for found in _INDENTED.finditer(page.read_text())),
        )
        if (why := fault(words_of(phrase)))
    ]
    assert wrong == []


def test_each_command_in_a_message_is_one() -> None:
    """Errors, remedies and texts of the dashboard name commands and options that there are."""
    wrong = [
        f"{path.relative_to(ROOT)}: orch {phrase}: {why}"
        for path in SOURCES
        for text in literals(path)
        for phrase in phrases(text)
        if (why := fault(words_of(phrase)))
    ]
    assert wrong == []


def test_signatures_put_commands_in_backticks_and_name_such_that_are() -> None:
    """What to do next can be typed as it stands; a command in plain words would not be checked."""
    for known in load():
        for text in (known.cause, *known.next_steps):
            assert "orch " not in re.sub(r"`[^`]*`|\w*torch ", "", text), text
            assert [why for phrase in phrases(text) if (why := fault(words_of(phrase)))] == []


def test_a_whole_example_of_the_documentation_is_taken(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Lines of the pages' own examples pass the parser as they stand, values and all."""
    wrong, taken = [], 0
    for page in PAGES:
        for found in _INDENTED.finditer(page.read_text()):
            line = _END.sub("", found[1]).strip()
            if re.search(r"[\[\]\u2026]|\.\.\.|\b(?:[A-Z]+|T)\b|CMD", line.partition(" -- ")[0]):
                continue
            try:
                parse(shlex.split(line))
                taken += 1
            except SystemExit as left:
                said = capsys.readouterr().err
                if left.code:
                    wrong.append(f"{page.name}: orch {line}: {said.splitlines()[-1]}")
    assert wrong == []
    assert taken > 10


def test_the_checks_see_what_is_wrong() -> None:
    """A command, a part and an option that are not there are found."""
    assert fault(["psst"]) == "no command psst"
    assert fault(["daemon", "begin"]) == "no command begin"
    assert fault(["ps", "--everything"]) == "no option --everything"
    assert fault(["exec", "TARGET", "--", "ls", "--everything"]) is None
