"""Ops of `orch cache`: the kernels that a job has compiled here, kept, brought back, put aside.

Owns `WORKDIR/caches/NAME/`: a folder for each kind of cache, and `cache.json` with what they were
made with. A kept cache is never changed, and what is there already is never replaced by what is
brought back. Stdlib only, Python 3.10.
"""

import errno
import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from typing import Any

from . import files
from .clean_env import run_environment
from .environment import cache_folders, size_of
from .errors import OpError, Refused
from .frames import Frame
from .ops import Progress

KEPT = 3
"""So many caches of a job stay; an older one goes when another is kept."""

_RECORD = "cache.json"
_KEYS = {"name", "how", "at", "bytes", "files", "kinds", "made_with"}
"""A record without them is somebody else's."""
_PROGRESS_BYTES = 64 * 1024 * 1024
_FICLONE = 0x40049409


def cache_list(args: Frame, _progress: Progress) -> Frame:
    """What the job's caches hold now, and what is kept of them, newest first."""
    now = [
        {"kind": kind, "path": path, **(size_of(path) or {"bytes": 0, "files": 0})}
        for kind, path in _folders(args).items()
    ]
    return {"now": now, "saved": list(_saved(args["workdir"]))}


def cache_save(args: Frame, progress: Progress) -> Frame:
    """Copy the job's caches to `caches/NAME`; the record, and what older ones went for it."""
    present = _present(args)
    final = os.path.join(args["workdir"], "caches", _name(args["name"]))
    fresh = os.path.join(os.path.dirname(final), f".new-{args['name']}")
    copy = _Copy(progress)
    with _told(args["workdir"]):
        shutil.rmtree(fresh, ignore_errors=True)  # of an op that was killed
        os.makedirs(fresh)
        try:
            for kind, path in present.items():
                copy.tree(path, os.path.join(fresh, kind))
            record = _keep_record(fresh, args, args["name"], copy.bytes, copy.files, present)
            shutil.rmtree(final, ignore_errors=True)
            os.rename(fresh, final)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    return {**record, "dropped": _drop_old(args["workdir"])}


def cache_clear(args: Frame, progress: Progress) -> Frame:
    """Empty the job's caches; what was in them is `caches/NAME` from then on.

    Killed half way, each kind of cache is in one of the two places, whole.
    """
    present = _present(args)
    with _told(args["workdir"]):
        kept = _unused(os.path.join(args["workdir"], "caches", _name(args["name"])))
        sizes = [size_of(path) or {} for path in present.values()]
        size, count = (sum(one.get(key, 0) for one in sizes) for key in ("bytes", "files"))
        os.makedirs(kept)
        record = _keep_record(kept, args, os.path.basename(kept), size, count, present)
        for kind, path in present.items():
            _put_aside(path, os.path.join(kept, kind), progress)
    return {**record, "dropped": _drop_old(args["workdir"])}


def cache_restore(args: Frame, progress: Progress) -> Frame:
    """Copy what is kept as NAME to where the job looks for it, but over nothing that is there."""
    kept = os.path.join(args["workdir"], "caches", _name(args["name"]))
    record = files.read_record(os.path.join(kept, _RECORD))
    if record is None:
        raise Refused(
            f"no compile cache is kept as {args['name']} in {args['workdir']}.",
            remedy="`orch cache ls` lists what is kept.",
        )
    copy = _Copy(progress)
    folders = _folders(args)
    for kind in record.get("kinds") or ():
        if kind in folders:
            with _told(args["workdir"]):
                copy.tree(os.path.join(kept, kind), folders[kind])
    return {"files": copy.files, "bytes": copy.bytes, "there": copy.there}


def _folders(args: Frame) -> dict[str, str]:
    env = run_environment(dict(args.get("env") or {}), path_first=[], python_path=[])
    return cache_folders(env)


def _present(args: Frame) -> dict[str, str]:
    """The caches that hold a file; one that lies in another goes with it."""
    folders = _folders(args)
    tops = {
        kind: path
        for kind, path in folders.items()
        if not any(path.startswith(f"{other}/") for other in folders.values())
    }
    found = {kind: path for kind, path in tops.items() if (size_of(path) or {}).get("files")}
    if not found:
        raise Refused(
            f"there are no compiled kernels in {', '.join(tops.values())}.",
            remedy="Run the job first; its first steps compile them.",
        )
    return found


def _saved(workdir: str) -> Iterator[Frame]:
    folder = os.path.join(workdir, "caches")
    names = os.listdir(folder) if os.path.isdir(folder) else []
    records = (files.read_record(os.path.join(folder, name, _RECORD)) for name in names)
    ours = [one for one in records if one is not None and one.keys() >= _KEYS]
    yield from sorted(ours, key=lambda one: float(one["at"]), reverse=True)


def _drop_old(workdir: str) -> list[str]:
    """Names of the kept caches that went: of each way of keeping all but the newest."""
    dropped: list[str] = []
    for how in ("saved", "cleared"):
        ours = [one["name"] for one in _saved(workdir) if one["how"] == how]
        for name in ours[KEPT:]:
            shutil.rmtree(os.path.join(workdir, "caches", name), ignore_errors=True)
            dropped.append(name)
    return dropped


def _name(name: str) -> str:
    if not name or "/" in name or name.startswith("."):
        raise OpError("UsageError", f"{name!r} is no name of a kept cache.")
    return name


class _told:  # noqa: N801  a context manager that reads as a word
    """Turns what the system refuses into a sentence with its remedy."""

    def __init__(self, workdir: str) -> None:
        self._workdir = workdir

    def __enter__(self) -> None:
        """Nothing to begin."""

    def __exit__(self, _kind: object, exc: BaseException | None, _trace: object) -> None:
        if isinstance(exc, OSError):
            remedy = "Give the target's user the right to write there."
            if exc.errno in (errno.ENOSPC, errno.EDQUOT):
                remedy = "Free some space there; `orch prune` removes old releases."
            where = exc.filename or self._workdir
            raise Refused(f"{where}: {exc.strerror}.", remedy=remedy) from exc


def _keep_record(
    folder: str, args: Frame, name: str, size: int, count: int, present: dict[str, str]
) -> Frame:
    record = {
        "name": name,
        "how": args["how"],
        "at": time.time(),
        "bytes": size,
        "files": count,
        "kinds": sorted(present),
        "made_with": args["made_with"],
    }
    files.write_record(os.path.join(folder, _RECORD), record)
    return record


def _unused(path: str) -> str:
    number, free = 1, path
    while os.path.lexists(free):
        number += 1
        free = f"{path}-{number}"
    return free


def _put_aside(path: str, to: str, progress: Progress) -> None:
    """Move a folder and leave an empty one in its place."""
    mode = os.stat(path).st_mode & 0o7777
    try:
        os.rename(path, to)
    except OSError as exc:
        if exc.errno not in (errno.EXDEV, errno.EBUSY):
            raise
        _copy_and_empty(path, to, progress)  # another file system, or a mount of its own
        return
    os.makedirs(path, exist_ok=True)
    os.chmod(path, mode)


def _copy_and_empty(path: str, to: str, progress: Progress) -> None:
    """Copy a folder whole before anything of it goes."""
    try:
        _Copy(progress).tree(path, to)
    except BaseException:
        shutil.rmtree(to, ignore_errors=True)
        raise
    for child in os.scandir(path):
        if child.is_dir(follow_symlinks=False):
            shutil.rmtree(child.path)
        else:
            os.unlink(child.path)


class _Copy:
    """Copies trees file by file, sharing blocks where the file system can."""

    def __init__(self, progress: Progress) -> None:
        self.files = self.bytes = self.there = 0
        self._progress = progress
        self._said = 0
        self._reflinks = True

    def tree(self, old: str, new: str) -> None:
        """Copy what is in a folder; what has gone meanwhile is not there, what stands stays."""
        for folder, below, names in os.walk(old):
            there = os.path.join(new, os.path.relpath(folder, old))
            os.makedirs(there, exist_ok=True)
            links = [name for name in below if os.path.islink(os.path.join(folder, name))]
            for name in (*names, *links):
                self._one(os.path.join(folder, name), os.path.join(there, name))

    def _one(self, old: str, new: str) -> None:
        if os.path.lexists(new):
            self.there += 1
            return
        try:
            if os.path.islink(old):
                os.symlink(os.readlink(old), new)
            elif os.path.isfile(old):
                self._file(old, new)
            else:
                return  # a socket or a FIFO holds no kernel
        except FileNotFoundError:
            return  # a program that compiles renames and removes
        self.files += 1
        if self.bytes - self._said >= _PROGRESS_BYTES:
            self._said = self.bytes
            self._progress({"bytes": self.bytes})

    def _file(self, old: str, new: str) -> None:
        part = f"{new}.orch-part"
        try:
            with open(old, "rb") as source, open(part, "wb") as to:
                if not self._reflink(source.fileno(), to.fileno()):
                    shutil.copyfileobj(source, to, 1 << 20)
                found = os.fstat(source.fileno())
            os.chmod(part, found.st_mode & 0o7777)
            os.utime(part, ns=(found.st_atime_ns, found.st_mtime_ns))
            os.rename(part, new)
        except BaseException:
            if os.path.exists(part):
                os.unlink(part)
            raise
        self.bytes += found.st_size

    def _reflink(self, old: int, new: int) -> bool:
        if self._reflinks:
            try:
                fcntl.ioctl(new, _FICLONE, old)
            except OSError:
                self._reflinks = False
        return self._reflinks


OPS: dict[str, Any] = {
    "cache_list": cache_list,
    "cache_save": cache_save,
    "cache_clear": cache_clear,
    "cache_restore": cache_restore,
}
