"""Ops on runs' folders: `runs_prune` removes those that have ended with what tmux still shows of
them, `runs_known` reads them.

Owns which of them is in use, and so is never removed. Only what the caller names is looked at:
other daemons may have runs in the same working folder. `runs_highest` says which numbers all of
them have taken. Stdlib only and Python 3.10.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from typing import TYPE_CHECKING, Any

from . import procfs
from .errors import OpError
from .files import read_record
from .names import ATTEMPT_FILE, EXIT_FILE
from .tmux import Tmux

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Args = dict[str, Any]
    Progress = Callable[[Args], None]

_TRASH = ".trash-"
_ATTEMPT = "attempt-"


def prune(args: Args, _progress: Progress) -> Args:
    """Remove the named folders below `runs`, and dead sessions of theirs on tmux's `socket`.

    With `dry_run` only say what would go.
    """
    root = os.path.realpath(os.path.join(args["workdir"], "runs"))
    names = [_checked(name) for name in args["names"]]
    there = [name for name in names if os.path.isdir(os.path.join(root, name))]
    used = _in_use(root)
    going = [name for name in there if name not in used]
    found = [{"name": name, "bytes": _size(os.path.join(root, name))} for name in going]
    server = Tmux(args.get("socket")) if shutil.which("tmux") else None
    sessions = _dead_sessions(server, root, set(names) - used) if server is not None else []
    if not args.get("dry_run"):
        if server is not None:
            for name in sessions:
                server.run("kill-session", "-t", f"={name}")
        _sweep(root)
        for name in going:
            _discard(root, name)
    in_use = [name for name in there if name in used]
    return {"removed": found, "in_use": in_use, "sessions": sessions}


def _dead_sessions(server: Tmux, root: str, names: set[str]) -> list[str]:
    """Of the named runs, whether or not their folders are there still; none that is shared."""
    return [
        one.name
        for one in server.sessions()
        if one.dead
        and not one.shared
        and one.attempt_dir is not None
        and os.path.dirname(os.path.dirname(os.path.realpath(one.attempt_dir))) == root
        and os.path.basename(os.path.dirname(os.path.realpath(one.attempt_dir))) in names
    ]


def known(args: Args, _progress: Progress) -> Args:
    """What is here of the named runs: the records of each of their attempts, in order."""
    root = os.path.realpath(os.path.join(args["workdir"], "runs"))
    found = []
    for name in map(_checked, args["names"]):
        folder = os.path.join(root, name)
        numbers = sorted(_attempts(folder))
        records = [_records(os.path.join(folder, f"{_ATTEMPT}{one}"), one) for one in numbers]
        attempts = [one for one in records if one["attempt"] is not None]
        if attempts:
            found.append({"name": name, "attempts": attempts})
    return {"runs": found}


def highest(args: Args, _progress: Progress) -> Args:
    """The highest number of a job's runs, whoever started them; 0 where none has a folder."""
    names: list[str] = []
    with contextlib.suppress(OSError):
        names = os.listdir(os.path.join(args["workdir"], "runs"))
    return {"number": highest_of(names, args["job"])}


def highest_of(names: Iterable[str], job: str) -> int:
    """Likewise, of the names of folders."""
    ours = re.compile(rf"{re.escape(job)}-([0-9]{{1,9}})\.")
    return max((int(found[1]) for found in map(ours.match, names) if found), default=0)


def _attempts(folder: str) -> list[int]:
    with contextlib.suppress(OSError):
        names = [one for one in os.listdir(folder) if one.startswith(_ATTEMPT)]
        return [int(one[len(_ATTEMPT) :]) for one in names if one[len(_ATTEMPT) :].isdigit()]
    return []


def _records(folder: str, number: int) -> Args:
    return {
        "number": number,
        "attempt": read_record(os.path.join(folder, ATTEMPT_FILE)),
        "exit": read_record(os.path.join(folder, EXIT_FILE)),
    }


def _checked(name: str) -> str:
    if not name or "/" in name or name.startswith("."):
        raise OpError("UsageError", f"{name!r} is no name of a run's folder.")
    return name


def _in_use(root: str) -> set[str]:
    """Folders that a living program was started for, or works in."""
    used = set()
    for found in procfs.every():
        places = [procfs.environment(found.pid).get("ORCH_RUN_DIR", "")]
        with contextlib.suppress(OSError):
            places.append(os.readlink(f"/proc/{found.pid}/cwd"))
        for place in filter(None, places):
            folder = os.path.realpath(place)
            if folder.startswith(root + "/"):
                used.add(folder[len(root) + 1 :].partition("/")[0])
    return used


def _size(path: str) -> int:
    size = 0
    for folder, _, names in os.walk(path):
        for name in names:
            with contextlib.suppress(OSError):
                size += os.lstat(os.path.join(folder, name)).st_size
    return size


def _discard(root: str, name: str) -> None:
    """At no instant half of it stands under its name."""
    trash = os.path.join(root, f"{_TRASH}{name}-{os.getpid()}")
    os.rename(os.path.join(root, name), trash)
    shutil.rmtree(trash, ignore_errors=True)


def _sweep(root: str) -> None:
    """Remove what a prune that was killed left."""
    with contextlib.suppress(FileNotFoundError):
        for name in os.listdir(root):
            if name.startswith(_TRASH):
                shutil.rmtree(os.path.join(root, name), ignore_errors=True)


OPS = {"runs_prune": prune, "runs_known": known, "runs_highest": highest}
