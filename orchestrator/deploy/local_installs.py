"""What the commands and requirements of a setup install from the release's own folder.

Owns how a shell command and a line of a requirements file are read. Reads no file.
"""

import posixpath
import re
import shlex
from collections.abc import Iterator
from itertools import pairwise

_OPERATORS = ";&|<>\n"
_COMMENT = re.compile(r"(?:^|\s)#.*")
_INCLUDES = {"-r", "-c", "--requirement", "--constraint"}
_EDITABLE = {"-e", "--editable"}
_INSTALLS = {"install", "sync"}
_OF_PROJECT = {
    "uv": {"sync", "run"},
    "poetry": {"install", "sync"},
    "pdm": {"install", "sync"},
    "pipenv": {"install", "sync"},
    "rye": {"sync"},
    "flit": {"install"},
    "hatch": {"env", "run"},
    "maturin": {"develop"},
}
"""Commands that install what the project in their folder is, or what its lock file says."""
_NOT_INSTALLED = {"-c", "-f", "-p", "-t", "--find-links", "--python", "--target", "--cache-dir"}
"""Options with a path as their value that is not itself installed."""
_HERE = re.compile(r"\$\{?(?:PWD|PROJECT_ROOT)\b|\$\(pwd\b|`pwd\b")
_PATH = re.compile(
    r"(?![/~$-]|\.venv\b|file:/|.*\.(?:txt|in)$)"
    r"(?:\.|file:|[^:]*/|.*\.(?:whl|tar\.gz|zip)$)"
)


def lines_of(text: str) -> Iterator[list[str]]:
    """The words of each line of a requirements file that has any."""
    for line in text.replace("\\\n", " ").splitlines():
        if words := _words(_COMMENT.sub("", line), ""):
            yield words


def commands_of(text: str) -> Iterator[list[str]]:
    """The words of each command in a line for the shell, with those that it quotes for another."""
    command: list[str] = []
    for word in _words(text.replace("\\\n", " "), _OPERATORS):
        if word and not word.strip(_OPERATORS):
            yield command
            command = []
            continue
        command.append(word)
        if " " in word or "\n" in word:
            yield from commands_of(word)
    yield command


def included_by(words: list[str]) -> Iterator[str]:
    """The requirements files that a line, or an install command, names by a path from here on."""
    for name in _values(words, _INCLUDES):
        if name and "$" not in name and "://" not in name and not name.startswith(("/", "~")):
            yield name


def asked_by(command: list[str]) -> list[str]:
    """The requirements files that a command installs."""
    return list(included_by(command)) if _INSTALLS.intersection(command) else []


def is_local_line(words: list[str]) -> bool:
    """Whether a line of a requirements file is of the release's own folder."""
    if words[0].startswith("-"):
        return any(map(_is_local_editable, _values(words, _EDITABLE)))
    return any(map(_is_local, words))


def is_local_command(command: list[str]) -> bool:
    """Whether a command installs the package, or a part of it, from the release's own folder."""
    names = [posixpath.basename(word) for word in command]
    if "setup.py" in names:
        return True
    if "pip" not in names and any(
        verbs.intersection(names[names.index(tool) :])
        for tool, verbs in _OF_PROJECT.items()
        if tool in names
    ):
        return True
    at = next((at for at, word in enumerate(command) if word in _INSTALLS), len(command))
    return any(map(_is_local_editable, _values(command[at:], _EDITABLE))) or any(
        _is_local(word) for before, word in pairwise(command[at:]) if before not in _NOT_INSTALLED
    )


def _is_local_editable(value: str) -> bool:
    return _is_local(value) or bool(re.match(r"[\w$][^:]*$", value))


def _is_local(word: str) -> bool:
    if _HERE.search(word):
        return not word.startswith("-")
    # A name may stand before it: `name @ ./folder`.
    return "://" not in word and any(map(_PATH.match, re.split(r"[\s@]+", word)))


def _values(words: list[str], options: set[str]) -> Iterator[str]:
    """What is given to options: `-o VALUE`, `-oVALUE`, `--option VALUE` or `--option=VALUE`."""
    for word, after in pairwise([*words, ""]):
        name, _, value = word.partition("=")
        if word in options:
            yield after
        elif name in options:
            yield value
        elif word[:2] in options:
            yield word[2:]


def _words(text: str, operators: str) -> list[str]:
    lexer = shlex.shlex(text, posix=True, punctuation_chars=operators)
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t\r", True, ""
    try:
        return list(lexer)
    except ValueError:  # a quote without its end, as an apostrophe in a comment
        found = re.findall(r"[;&|<>\n]+|[^\s;&|<>]+", text) if operators else text.split()
        return [word.strip("'\"") or word for word in found]
