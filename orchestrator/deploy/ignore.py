"""What of a package is left out: `.gitignore` files, `exclude:` and what is never shipped.

Owns the order in which they speak. Reads `.gitignore` files and nothing else.
"""

import os
from dataclasses import dataclass
from typing import Self

from pathspec import GitIgnoreSpec

NEVER_SHIPPED = frozenset({b".git", b"__pycache__", b".venv"})


@dataclass(frozen=True, slots=True)
class _Level:
    """The patterns of one file, which see paths relative to its folder."""

    prefix: str
    """Put before a path inside the package (a file above it), ending in a slash."""
    strip: int
    """Characters cut from it (a file within it)."""
    spec: GitIgnoreSpec

    def verdict(self, path: str) -> bool | None:
        """Whether the patterns leave the path out; None where they do not speak of it."""
        return self.spec.check_file(self.prefix + path[self.strip :]).include


@dataclass(frozen=True, slots=True)
class Ignore:
    """The patterns in force in one folder; the last to speak wins, as in git."""

    levels: tuple[_Level, ...]
    excluded: _Level | None

    @classmethod
    def none(cls) -> Self:
        """Leaves out nothing but what is never shipped."""
        return cls((), None)

    @classmethod
    def of(cls, package: bytes, exclude: tuple[str, ...]) -> Self:
        """For a package's folder: the `.gitignore` files of its repository above it, `exclude:`."""
        excluded = _Level("", 0, _spec(list(exclude))) if exclude else None
        return cls(tuple(_levels_above(package)), excluded)

    def entering(self, folder: bytes, inside: bytes) -> Self:
        """The patterns in a folder of the package, its own `.gitignore` among them."""
        lines = _lines_of(folder)
        if not lines:
            return self
        strip = len(_text(inside)) + 1 if inside else 0
        return type(self)((*self.levels, _Level("", strip, _spec(lines))), self.excluded)

    def leaves_out(self, path: bytes, name: bytes, *, is_folder: bool) -> bool:
        """Whether a path, relative to the package, is not shipped."""
        if name in NEVER_SHIPPED:
            return True
        text = _text(path) + ("/" if is_folder else "")
        levels = self.levels if self.excluded is None else (*self.levels, self.excluded)
        for level in reversed(levels):
            verdict = level.verdict(text)
            if verdict is not None:
                return verdict
        return False


def _levels_above(package: bytes) -> list[_Level]:
    """Of the folders between the repository's root and the package, outermost first."""
    folders: list[tuple[bytes, str]] = []
    folder, prefix = os.path.realpath(package), ""
    while not os.path.lexists(os.path.join(folder, b".git")):  # noqa: PTH118  a bytes path
        parent, name = os.path.split(folder)
        if parent == folder:
            return []
        prefix = f"{_text(name)}/{prefix}"
        folders.append((parent, prefix))
        folder = parent
    found = [(prefix, _lines_of(folder)) for folder, prefix in reversed(folders)]
    return [_Level(prefix, 0, _spec(lines)) for prefix, lines in found if lines]


def _lines_of(folder: bytes) -> list[str]:
    try:
        with open(os.path.join(folder, b".gitignore"), "rb") as file:  # noqa: PTH118, PTH123  bytes
            return [line.rstrip("\r") for line in _text(file.read()).split("\n")]
    except OSError:  # none there, or unreadable: git too goes on without it
        return []


def _spec(lines: list[str]) -> GitIgnoreSpec:
    # The hyperscan backend, which pathspec prefers, cannot take names that are not UTF-8.
    return GitIgnoreSpec.from_lines(lines, backend="simple")


def _text(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")
