"""In which order a copied folder is told, so that a page of it begins behind a name.

Owns that order, which holds whatever comes and goes between two pages. Stdlib only, Python 3.10.
"""

import os
from collections.abc import Iterator

from .errors import Refused


def names_behind(top: str, after: str) -> Iterator[str]:
    """What is in a folder and comes behind `after`: a folder's own, then what each of them has."""
    if not after:
        yield "."
    last = _order(after)
    for path, folders, files in os.walk(top, onerror=_refuse_unless_gone):
        inside = "" if path == top else os.path.relpath(path, top)
        for name in sorted(os.path.join(inside, one) for one in (*files, *folders)):
            if _order(name) > last:
                yield name
        above = _parts(inside)
        # Of a folder that was told to its end nothing is looked at again.
        folders[:] = [one for one in sorted(folders) if (*above, one) >= last[0][: len(above) + 1]]


def _refuse_unless_gone(exc: OSError) -> None:
    """What cannot be listed would be copied as an empty folder."""
    if not isinstance(exc, (FileNotFoundError, NotADirectoryError)):
        raise Refused(
            f"{exc.filename}: {exc.strerror}.", remedy="Let the user who copies read there."
        ) from exc


def _order(name: str) -> tuple[tuple[str, ...], str]:
    """What sorts a name to where `names_behind` has it."""
    folder, last = os.path.split(name)
    return _parts(folder), "" if name == "." else last


def _parts(folder: str) -> tuple[str, ...]:
    return tuple(folder.split("/")) if folder else ()
