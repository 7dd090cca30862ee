"""How a launch reaches the relay: once, through a FIFO that only its owner can read.

Owns the reading end; launch.py writes. Stdlib only: it is part of the relay.
"""

import json
import os
import select
import time
from typing import Any

from .opening import Misplaced, open_fifo

READ_BYTES = 64 * 1024

Spec = dict[str, Any]
"""run, uid, attempt, session, argv, env and cwd of an attempt; `asked`, `own_alert` if given."""


def read_spec(path: str, within_s: float) -> Spec | None:
    """The launch that is written once into the FIFO, which is removed; None where none came.

    A writer that died half-way leaves text that is no JSON: the next writer's is waited for.
    """
    deadline = time.monotonic() + within_s
    try:
        fd = open_fifo(path, os.O_RDONLY)
    except Misplaced:
        return None
    try:
        while time.monotonic() < deadline:
            spec = _parse(_read_to_end(fd, deadline))
            if spec is not None:
                os.unlink(path)
                return spec
        return None
    finally:
        os.close(fd)


def _read_to_end(fd: int, deadline: float) -> bytes:
    """What one writer wrote; empty where none came before the deadline."""
    text = b""
    while time.monotonic() < deadline:
        try:
            chunk = os.read(fd, READ_BYTES)
        except BlockingIOError:
            # A writer is there and has more to say.
            select.select([fd], [], [], 0.5)
            continue
        text += chunk
        if text and not chunk:
            break
        if not chunk:
            # No writer yet, of which select cannot tell.
            time.sleep(0.005)
    return text


def _parse(text: bytes) -> Spec | None:
    try:
        spec = json.loads(text)
    except ValueError:
        return None
    return spec if isinstance(spec, dict) else None
