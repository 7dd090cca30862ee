"""What of a package is left out: `.gitignore` files, `exclude:` and what is never shipped.

Owns the order in which they speak. Reads `.gitignore` files and nothing else.
"""

import functools
import os
import re
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

NEVER_SHIPPED = frozenset({b".git", b"__pycache__", b".venv"})


@dataclass(frozen=True, slots=True)
class _Level:
    """The patterns of one file, which see paths relative to its folder."""

    prefix: str
    """Put before a path inside the package (a file above it), ending in a slash."""
    strip: int
    """Characters cut from it (a file within it)."""
    lines: tuple[str, ...]

    def verdict(self, path: str) -> bool | None:
        """Whether the patterns leave the path out; None where they do not speak of it."""
        return _spec(self.lines).check_file(self.prefix + path[self.strip :]).include


Memory = dict[Any, dict[tuple[bytes, bool], bool]]
"""Verdicts on paths, by the patterns that gave them."""

_MOST_REMEMBERED = 1000


@dataclass(frozen=True, slots=True)
class Ignore:
    """The patterns in force in one folder; the last to speak wins, as in git."""

    levels: tuple[_Level, ...]
    excluded: _Level | None
    memory: Memory
    verdicts: dict[tuple[bytes, bool], bool]

    @classmethod
    def none(cls) -> Self:
        """Leaves out nothing but what is never shipped."""
        return cls((), None, {}, {})

    @classmethod
    def of(cls, package: bytes, exclude: tuple[str, ...], memory: Memory) -> Self:
        """For a package's folder: the `.gitignore` files of its repository above it, `exclude:`.

        `memory` keeps verdicts from one walk to the next, while the patterns are the same.
        """
        excluded = _Level("", 0, tuple(exclude)) if exclude else None
        return cls._remembering(tuple(_levels_above(package)), excluded, memory)

    @classmethod
    def _remembering(
        cls, levels: tuple[_Level, ...], excluded: _Level | None, memory: Memory
    ) -> Self:
        if len(memory) > _MOST_REMEMBERED:
            memory.clear()
        return cls(levels, excluded, memory, memory.setdefault((levels, excluded), {}))

    def entering(self, folder: bytes, inside: bytes) -> Self:
        """The patterns in a folder of the package, its own `.gitignore` among them."""
        lines = _lines_of(folder)
        if not lines:
            return self
        strip = len(_text(inside)) + 1 if inside else 0
        levels = (*self.levels, _Level("", strip, lines))
        return self._remembering(levels, self.excluded, self.memory)

    def leaves_out(self, path: bytes, name: bytes, *, is_folder: bool) -> bool:
        """Whether a path, relative to the package, is not shipped."""
        if name in NEVER_SHIPPED:
            return True
        if not self.levels and self.excluded is None:
            return False
        known = self.verdicts.get((path, is_folder))
        if known is None:
            known = self.verdicts[path, is_folder] = self._judge(path, is_folder=is_folder)
        return known

    def _judge(self, path: bytes, *, is_folder: bool) -> bool:
        text = _text(path) + ("/" if is_folder else "")
        levels = self.levels if self.excluded is None else (*self.levels, self.excluded)
        for level in reversed(levels):
            verdict = level.verdict(text)
            if verdict is not None:
                return verdict
        return False


def only(path: str) -> str:
    """The pattern that means this one path of a package, whatever characters it has."""
    return "/" + re.sub(r"([\\*?\[\] ])", r"\\\1", path)


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
    return [_Level(prefix, 0, lines) for prefix, lines in found if lines]


def _lines_of(folder: bytes) -> tuple[str, ...]:
    """Of a file alone: a FIFO of that name would be waited for, a device read without an end."""
    path = os.path.join(folder, b".gitignore")  # noqa: PTH118  a bytes path
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116  a bytes path
            return ()
        with open(path, "rb") as file:  # noqa: PTH123  a bytes path
            return tuple(line.rstrip("\r") for line in _text(file.read()).split("\n"))
    except OSError:  # none there, or unreadable: git too goes on without it
        return ()


@functools.lru_cache(maxsize=256)
def _spec(lines: tuple[str, ...]) -> "GitIgnoreSpec":
    from pathspec import GitIgnoreSpec  # once somebody deploys

    # The hyperscan backend, which pathspec prefers, cannot take names that are not UTF-8.
    return GitIgnoreSpec.from_lines(lines, backend="simple")


def _text(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")
