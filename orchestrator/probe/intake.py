"""Takes in the files of a release as they arrive: written and hashed in the order of their sending.

Owns the blobs below an incoming folder while a deploy sends. Calls run in threads of their own, so
each waits for its turn; the next one is read from the wire meanwhile. Stdlib only, Python 3.10.
"""

from __future__ import annotations

import hashlib
import os
import threading
from typing import Any

from . import blobs
from . import manifest as wire
from .errors import OpError

_TURN_WITHIN_S = 100.0
_EARLY_BYTES = 64 * 1024
"""Smaller files are put onto the disk together, at the end."""


class Intake:
    """What one deploy has sent so far."""

    def __init__(self, incoming: str) -> None:
        self._blobs = os.fsencode(os.path.join(incoming, "blobs"))
        self._turn = threading.Condition()
        self._next = 0
        self._failure: BaseException | None = None
        self._hash: Any = None
        self._hashing = ""
        self._offset = 0
        self._verified: set[str] = set()

    def take(self, number: int, chunk: bytes | bytearray) -> None:
        """Write piece `number` once all before it are written; OSError where the disk refuses."""
        with self._turn:
            came = self._turn.wait_for(
                lambda: self._next == number or self._failure is not None, _TURN_WITHIN_S
            )
            if self._failure is not None:
                raise self._failure
            if not came:
                raise OpError("DeployError", f"piece {self._next} did not come.", "Deploy again.")
            try:
                for sha, offset, content in wire.records(chunk):
                    self._write(sha, offset, content)
            except BaseException as exc:
                self._failure = exc
                raise
            finally:
                self._next += 1
                self._turn.notify_all()

    def end(self) -> None:
        """Let go those that wait for a turn which does not come."""
        with self._turn:
            self._failure = self._failure or OpError("DeployError", "this deploy was given up.")
            self._turn.notify_all()

    def verified(self) -> frozenset[str]:
        """Files that came from their first byte to their last, and are what they should be."""
        with self._turn:
            self._look_at_last()
            return frozenset(self._verified)

    def _write(self, sha: str, offset: int, content: memoryview) -> None:
        if offset == 0:
            self._look_at_last()
            self._hash, self._hashing, self._offset = hashlib.sha256(), sha, 0
        if sha == self._hashing and offset == self._offset:
            self._hash.update(content)
            self._offset += len(content)
        fd = blobs.open_to_write(self._blobs, sha)
        try:
            written = 0
            while written < len(content):
                written += os.pwrite(fd, content[written:], offset + written)
            if offset + written >= _EARLY_BYTES:
                # Onto the disk while the rest still is on its way, not all at the end.
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(fd)

    def _look_at_last(self) -> None:
        if self._hashing and self._hash.hexdigest() == self._hashing:
            self._verified.add(self._hashing)
        self._hashing = ""


_intakes: dict[tuple[str, int], Intake] = {}
_guard = threading.Lock()


def of(incoming: str, deploy: int) -> Intake:
    """The intake of a deploy; begun by its first call."""
    with _guard:
        return _intakes.setdefault((incoming, deploy), Intake(incoming))


def forget(incoming: str, deploy: int) -> None:
    """End the intake of a deploy that was committed or given up."""
    with _guard:
        intake = _intakes.pop((incoming, deploy), None)
    if intake is not None:
        intake.end()
