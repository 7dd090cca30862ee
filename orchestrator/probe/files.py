"""Small records on disk: written so that a reader sees the old one, the new one or none."""

import json
import os
from typing import Any

from .frames import MAX_FRAME_BYTES
from .opening import Misplaced, open_file

_MOST_PID = 1 << 31
_MOST_START = 1 << 62


def read_record(path: str) -> dict[str, Any] | None:
    """The JSON object in a file; None where there is none, or not yet, or what is no record.

    It may be a program's own: too large or too deep is no record either.
    """
    try:
        with open(open_file(path, os.O_RDONLY), "rb") as file:
            content = file.read(MAX_FRAME_BYTES + 1)
        record = json.loads(content) if len(content) <= MAX_FRAME_BYTES else None
    except (OSError, ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def identity_in(record: dict[str, Any] | None, pid: str, start: str) -> tuple[int, int] | None:
    """PID and start of a process by those keys of a record; None where they name no process."""
    number, began = (record or {}).get(pid), (record or {}).get(start)
    if type(number) is not int or type(began) is not int:
        return None
    return (number, began) if 0 < number < _MOST_PID and 0 <= began < _MOST_START else None


def write_record(path: str, record: dict[str, Any]) -> None:
    """Write, sync and rename; OSError where the disk refuses."""
    write_reserved(reserve(path), path, record)


RESERVED_BYTES = 4096


def reserve(path: str, size: int = RESERVED_BYTES) -> str:
    """Make the file that will be renamed to `path`, its blocks allocated, and return its name.

    A full disk then cannot stop the record from being written.
    """
    name = f"{path}.{os.getpid()}.new"
    fd = _own(name)
    try:
        os.pwrite(fd, b"\n" * size, 0)
    finally:
        os.close(fd)
    return name


def write_reserved(name: str, path: str, record: dict[str, Any]) -> None:
    """Fill a reserved file and rename it to `path`; the rest of it stays blank."""
    raw = json.dumps(record).encode() + b"\n"
    fd = _own(name)
    try:
        os.pwrite(fd, raw, 0)
        os.fsync(fd)
    finally:
        os.close(fd)
    os.rename(name, path)


def _own(name: str) -> int:
    """The file that is to become a record, made anew where something else took its place."""
    try:
        return open_file(name, os.O_WRONLY | os.O_CREAT)
    except Misplaced:
        os.unlink(name)
        return open_file(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
