"""Which runs are ours, in a file beside their logs: known also where the database is lost.

Owns the file's form and its safety. Must not: know where logs are.
"""

import os
from pathlib import Path

_FILE = "uid"


def write_claim(folder: Path, uid: str) -> None:
    """Say in a run's folder that it is ours; one that says so is left alone.

    Each start of a daemon says it anew: on a full disk, or in a power cut, that must not cost it.
    """
    if read_claim(folder) == uid:
        return
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    fresh = folder / f"{_FILE}.new"
    with fresh.open("w", encoding="ascii") as stream:
        stream.write(uid)
        stream.flush()
        os.fsync(stream.fileno())
    fresh.replace(folder / _FILE)


def read_claim(folder: Path) -> str | None:
    """What was said in a run's folder; None where that is nothing."""
    try:
        return (folder / _FILE).read_text(encoding="ascii") or None
    except (OSError, ValueError):
        return None
