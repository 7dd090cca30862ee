"""Ops of `orch cp`: what is at a path, its bytes' hash, and a file that is built beside its name.

A file that is not whole is NAME with a mark around it, in the same folder, so that the next copy
goes on where this one stopped; the name itself gets a verified file by one rename, or none.
"""

import errno
import functools
import hashlib
import json
import os
import shlex
import shutil
import stat
from typing import Any

from .copy_order import names_behind
from .errors import Refused
from .frames import MAX_FRAME_BYTES, Frame
from .ops import Op, Progress

READ_BYTES = 1 << 20
PAGE = 5000
_NAMED_BYTES = 1 << 20
"""Of names and what links lead to, as JSON has them: a letter may be twelve bytes."""
PROGRESS_BYTES = 64 << 20
_LONGEST_BYTES = 255 - len("..orch-part")
"""Of a name that a part can carry; file systems take 255."""
_PAGE_BYTES = 4096
"""What sysfs says of each of its files."""

FILE, FOLDER, LINK, OTHER, NOTHING = "file", "folder", "link", "other", "nothing"


_WRITE = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
"""A link of the part's name leads elsewhere: whoever sent the folder before may have sent it."""


def part_of(path: str) -> str:
    """Where a file is built."""
    folder, name = os.path.split(path)
    if len(os.fsencode(name)) > _LONGEST_BYTES:
        name = hashlib.sha256(os.fsencode(name)).hexdigest()
    return os.path.join(folder, f".{name}.orch-part")


def copy_look(args: Frame, _progress: Progress) -> Frame:
    """What is at a path (a link is followed, and told as one), and how much of a part is there."""
    path = _path(args)
    try:
        status = os.stat(path)
    except FileNotFoundError:
        found: Frame = {"kind": NOTHING, "mode": 0, "size": 0, "stamp": []}
    else:
        found = {"kind": _kind(status.st_mode), "mode": stat.S_IMODE(status.st_mode)}
        found |= {"size": status.st_size, "stamp": _stamp(status)}
        found |= {"made_up": is_made_up(path, status)}
    path = os.path.abspath(path)
    part = part_of(path)
    found |= {"path": path, "link": os.path.islink(path)}
    return {**found, "part": _kind_at(part), "part_bytes": _size(part)}


def copy_tree(args: Frame, _progress: Progress) -> Frame:
    """What is in a folder, the folder itself as `.` first, in pages of at most 5000.

    A page begins behind the name `after`, wherever that is by now. What goes while it is listed
    is left out, but for the folder itself.
    """
    top = _path(args)
    os.stat(top)  # os.walk would say that what is gone is empty
    entries: list[dict[str, Any]] = []
    size = 0
    for name in names_behind(top, args.get("after") or ""):
        if len(entries) >= PAGE or size >= _NAMED_BYTES:
            return {"entries": entries, "more": True}
        try:
            entry = _entry(top, name)
        except FileNotFoundError:
            if name == ".":
                raise
            continue
        entries.append(entry)
        size += len(json.dumps(name)) + len(json.dumps(entry.get("to", "")))
    return {"entries": entries, "more": False}


def copy_digest(args: Frame, progress: Progress) -> Frame:
    """SHA-256, hex, of the first `size` bytes of a file, or of its part where `part` is said."""
    path = part_of(_path(args)) if args.get("part") else _path(args)
    left, digest, said = int(args["size"]), hashlib.sha256(), 0
    with open(path, "rb", buffering=0) as file:
        while left > 0 and (chunk := file.read(min(left, READ_BYTES))):
            digest.update(chunk)
            left -= len(chunk)
            said += len(chunk)
            if said >= PROGRESS_BYTES:
                said = 0
                progress({"left": left})
    return {"sha256": digest.hexdigest(), "missing": left}


def copy_read(args: Frame, _progress: Progress) -> Frame:
    """Bytes of a file, fewer where it has no more."""
    left, offset = min(int(args["size"]), MAX_FRAME_BYTES), int(args["offset"])
    parts: list[bytes] = []
    fd = _opened(_path(args))
    try:
        while left > 0 and (part := os.pread(fd, left, offset)):
            parts.append(part)
            offset += len(part)
            left -= len(part)
    except BlockingIOError:
        pass  # one of /proc that has no more for now
    finally:
        os.close(fd)
    return {"data": parts[0] if len(parts) == 1 else b"".join(parts)}


def copy_write(args: Frame, _progress: Progress) -> Frame:
    """Bytes into the part of a file; what is behind `offset` goes where `cut` is said."""
    chunk, offset = memoryview(args["data"]), int(args["offset"])
    fd = os.open(part_of(_path(args)), _WRITE, 0o600)
    try:
        if args.get("cut"):
            os.ftruncate(fd, offset)
        while chunk:
            written = os.pwrite(fd, chunk, offset)
            chunk, offset = chunk[written:], offset + written
    finally:
        os.close(fd)
    return {}


def copy_commit(args: Frame, progress: Progress) -> Frame:
    """Check the part, give it its mode, and rename it to its name; Refused where it differs."""
    path = _path(args)
    part = part_of(path)
    size = int(args["size"])
    if size == 0:
        os.close(os.open(part, _WRITE | os.O_TRUNC, 0o600))
    found = copy_digest({"path": path, "part": True, "size": size}, progress)
    if found["sha256"] != args["sha256"] or _size(part) != size:
        os.unlink(part)
        raise Refused(
            f"{path}: what came is not what was sent, and was removed.", remedy="Copy it again."
        )
    if os.path.isdir(path):
        raise Refused(f"{path} is a folder.", remedy="Give the file another name.")
    fd = os.open(part, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.fchmod(fd, int(args["mode"]))
        os.fsync(fd)
    finally:
        os.close(fd)
    os.rename(part, path)
    return {}


def copy_make(args: Frame, _progress: Progress) -> Frame:
    """A folder, which may be there already, or a link in the place of whatever link is there."""
    path = _path(args)
    if args["kind"] == LINK:
        if os.path.islink(path):
            os.unlink(path)
        os.symlink(args["to"], path)
        return {}
    if args.get("inside") and os.path.islink(path):
        # An earlier copy may have left it: what comes now would be written where it points.
        os.unlink(path)
    os.makedirs(path, exist_ok=True)
    os.chmod(path, int(args["mode"]))
    return {}


def copy_remove(args: Frame, _progress: Progress) -> Frame:
    """Remove what an earlier copy left, a folder with all that is in it; a link, not its end."""
    path = _path(args)
    kind = _kind_at(path)
    if kind == FOLDER:
        shutil.rmtree(path)
    elif kind != NOTHING:
        os.unlink(path)
    return {}


def copy_name(args: Frame, _progress: Progress) -> Frame:
    """Give a folder that was built beside its name that name."""
    path = _path(args)
    os.rename(part_of(path), path)
    return {}


def _path(args: Frame) -> str:
    return os.path.expanduser(args["path"] or "~")


def _size(path: str) -> int:
    """Of a file; 0 of all else, what a link leads to too."""
    return os.lstat(path).st_size if _kind_at(path) == FILE else 0


def _kind_at(path: str) -> str:
    """What is there itself, a link too."""
    try:
        return _kind(os.lstat(path).st_mode)
    except OSError:
        return NOTHING


def _kind(mode: int) -> str:
    if stat.S_ISREG(mode):
        return FILE
    return FOLDER if stat.S_ISDIR(mode) else LINK if stat.S_ISLNK(mode) else OTHER


def _opened(path: str) -> int:
    """A descriptor to read from, which never waits for what is not there yet."""
    return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)


def is_made_up(path: str, status: os.stat_result) -> bool:
    """Whether a file is written only when it is read, as those of /proc: its size tells nothing."""
    size = status.st_size
    if not stat.S_ISREG(status.st_mode) or status.st_blocks or size > _PAGE_BYTES:
        return False
    try:
        fd = _opened(path)
    except OSError:
        return False  # whoever copies it is told
    try:
        if len(os.read(fd, size + 1)) == size:
            return False
        now = os.fstat(fd)
        # One that is being written has no blocks either until the system flushes it, but it grows.
        return now.st_size == size and now.st_blocks == 0
    except OSError:
        return True
    finally:
        os.close(fd)


def _stamp(status: os.stat_result) -> list[int]:
    """What changes when somebody writes into a file."""
    return [status.st_ino, status.st_mtime_ns, status.st_ctime_ns]


def _entry(top: str, name: str) -> dict[str, Any]:
    path = top if name == "." else os.path.join(top, name)
    status = os.stat(path) if name == "." else os.lstat(path)
    entry = {
        "name": name,
        "kind": _kind(status.st_mode),
        "mode": stat.S_IMODE(status.st_mode),
        "size": status.st_size if stat.S_ISREG(status.st_mode) else 0,
        "stamp": _stamp(status),
        "made_up": is_made_up(path, status),
    }
    if entry["kind"] == LINK:
        entry["to"] = os.readlink(path)
    return entry


_REMEDIES = {
    errno.ENOSPC: "Free some space there; the same copy then goes on where it stopped.",
    errno.EDQUOT: "Free some of the quota; the same copy then goes on where it stopped.",
    errno.EACCES: "Let the user who copies read and write there.",
}


def _told(op: Op) -> Op:
    """Turn what the system refuses into a sentence with its remedy."""

    @functools.wraps(op)
    def wrapped(args: Frame, progress: Progress) -> Frame:
        try:
            return op(args, progress)
        except OSError as exc:
            folder = os.path.dirname(args["path"].rstrip("/")) or "."
            if exc.errno == errno.ENOENT and not os.path.isdir(folder):
                raise Refused(
                    f"{args['path']}: its folder {folder} is not there.",
                    remedy=f"Make it first (mkdir -p {shlex.quote(folder)}), or name another.",
                ) from exc
            remedy = _REMEDIES.get(exc.errno or 0)
            raise Refused(f"{args['path']}: {exc.strerror or exc}.", remedy=remedy) from exc

    return wrapped


OPS = {
    "copy_look": _told(copy_look),
    "copy_tree": _told(copy_tree),
    "copy_digest": _told(copy_digest),
    "copy_read": _told(copy_read),
    "copy_write": _told(copy_write),
    "copy_commit": _told(copy_commit),
    "copy_make": _told(copy_make),
    "copy_name": _told(copy_name),
    "copy_remove": _told(copy_remove),
}
