"""Small records on disk: written so that a reader sees the old one, the new one or none."""

import json
import os
from typing import Any

from .opening import Misplaced, open_file, read_file


def read_record(path: str) -> dict[str, Any] | None:
    """The JSON object in a file; None where there is none, or not yet."""
    try:
        record = json.loads(read_file(path))
    except (OSError, ValueError):
        return None
    return record if isinstance(record, dict) else None


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
