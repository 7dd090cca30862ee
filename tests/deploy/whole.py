"""Looks at trees: what a release must be, and what must not be left beside it."""

import itertools
import os
import stat
from pathlib import Path
from typing import Any

from orchestrator.deploy.bundle import Bundle
from orchestrator.deploy.pieces import read_pieces
from orchestrator.probe import release

Tree = dict[bytes, tuple[str, int, bytes]]


def tree_of(folder: str | Path | bytes, *, without: tuple[bytes, ...] = ()) -> Tree:
    """Every path below a folder: kind, mode and content."""
    root = os.fsencode(folder)
    found: Tree = {}
    for where, folders, names in os.walk(root):
        for name in [*names, *folders]:
            path = os.path.join(where, name)
            mode = os.lstat(path).st_mode
            inside = os.path.relpath(path, root)
            if inside in without:
                continue
            if stat.S_ISLNK(mode):
                found[inside] = ("link", 0, os.readlink(path))
            elif stat.S_ISREG(mode):
                with open(path, "rb") as file:
                    found[inside] = ("file", stat.S_IMODE(mode), file.read())
            elif not os.listdir(path):
                found[inside] = ("folder", stat.S_IMODE(mode), b"")
    return found


def leftovers(workdir: Path) -> list[str]:
    """What a deploy that ended well must not leave behind."""
    hidden = [name for name in os.listdir(workdir / "releases") if name.startswith(".")]
    halves = [
        name
        for name in os.listdir(workdir / "releases")
        if not name.startswith(".") and not (workdir / "releases" / name / "release.json").exists()
    ]
    return [name for name in hidden if name != ".lock"] + halves


def send(bundle: Bundle, args: dict[str, Any]) -> None:
    """Offer and send what is missing, by direct calls of the far side's ops."""
    missing = release.offer(args, lambda _: None)["missing"]
    for number, (piece, _) in enumerate(read_pieces(bundle, missing, itertools.repeat(65536))):
        release.take_piece(
            {**args, "number": number, "packed": False, "data": piece}, lambda _: None
        )
