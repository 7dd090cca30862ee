"""What a copy may be called where it arrives, whatever the other side says, and what has no part.

Owns these rules; asks neither end and touches no file.
"""

import os
import posixpath
from collections.abc import Iterable, Mapping
from typing import Any

from orchestrator.core.errors import OrchError
from orchestrator.probe import copying as here

Entry = Mapping[str, Any]


def name_of(asked: str, found: str, *, trusted: bool) -> str:
    """The name of what was asked for, in the folder that gets it: the asked one where it has one.

    Only of `.`, `~` and the like the other side tells it. OrchError where a target then names what
    a home folder has of its own (`.ssh`, `.bashrc`), or nothing.
    """
    plain = posixpath.normpath(asked)
    name = posixpath.basename(plain)
    if name not in {"", ".", ".."} and not (name == plain and name.startswith("~")):
        return name
    name = posixpath.basename(found)
    hidden = name.startswith(".") and not trusted
    if name in {"", ".", ".."} or hidden or not _can_be_named(name):
        raise OrchError(
            f"{asked}: the other side says that this is {found!r}, and nothing gets its name from "
            "that; nothing was copied.",
            remedy="Write the path out, or a destination that is not there yet.",
        )
    return name


def not_of(entries: list[Entry], found: Iterable[Entry]) -> list[str]:
    """Names of what lies in a part, folders first, that a copy of `entries` does not go on with.

    It may be of another folder of that name, or be gone at the source since.
    """
    files = [entry["name"] for entry in entries if entry["kind"] == here.FILE]
    kinds = {here.part_of(name): here.FILE for name in files}
    kinds |= {entry["name"]: entry["kind"] for entry in entries}
    gone: list[str] = []
    odd: set[str] = set()
    for entry in found:
        name = entry["name"]
        if posixpath.dirname(name) in odd:
            odd.add(name)
        elif name != "." and kinds.get(name) != entry["kind"]:
            odd.add(name)
            gone.append(name)
    return gone


def require_inside(top: str, entries: list[Entry]) -> None:
    """OrchError where a name leads out of the folder, or is none: the other side may be hostile.

    What lies below a link, of this copy or an earlier one, would be written wherever that points:
    so each name is below folders that are told as such, and is written in one way only.
    """
    links = {str(entry["name"]) for entry in entries if entry["kind"] == here.LINK}
    folders = {str(entry["name"]) for entry in entries if entry["kind"] == here.FOLDER} - links
    for entry in entries:
        name = str(entry["name"])
        parts = name.split("/")
        above = {"/".join(parts[:number]) for number in range(1, len(parts))}
        odd = name != "." and not {"", ".", ".."}.isdisjoint(parts)
        # The folder itself as a link would be what the next copy writes through.
        odd = odd or (name == "." and entry["kind"] != here.FOLDER)
        if odd or "\0" in name or not above <= folders:
            raise _hostile(top, name, "leads out of that folder")
        if not _can_be_named(name):
            raise _hostile(top, name, "no file here can be called")
        if entry["kind"] == here.LINK and not _can_be_named(entry.get("to")):
            raise _hostile(top, name, "is a link to nothing that can be")


def _can_be_named(path: object) -> bool:
    """Whether a system could have told that: no NUL, no half of a letter, and anything at all."""
    if not isinstance(path, str) or not path or "\0" in path:
        return False
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        return False
    return True


def _hostile(top: str, name: str, why: str) -> OrchError:
    return OrchError(
        f"{top}: the other side names {name!r}, which {why}; nothing was copied.",
        remedy="Do not trust that target until you know why it says so.",
    )
