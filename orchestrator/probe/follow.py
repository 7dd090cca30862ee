"""Follows one file by byte offset: every byte once, or a gap that says what is missing.

Owns reading only; who wakes it, and what becomes of its frames, is watch.py's and serve.py's.
"""

import json
import os
import stat
import time
from typing import Any

from .frames import CHUNK_BYTES, WINDOW_BYTES, Frame, pack
from .names import REPLACED
from .opening import Misplaced, open_file, read_file
from .pace import HURRY_S, LINGER_S, PACE_S, next_look

TRUNCATED = "truncated"
ROTATED = "rotated"


class Follower:
    """One stream of a watch; `offset` is where the next byte is read in the file."""

    def __init__(
        self,
        stream: str,
        path: str,
        offset: int,
        *,
        gaps_path: str | None = None,
        pace_s: float = PACE_S,
        linked: bool = False,
    ) -> None:
        """`linked` where orch itself made the path a link, to the file of a program it adopted."""
        self._stream = stream
        self._path = os.path.realpath(path) if linked else path
        self._misplaced = self._told_misplaced = False
        self.offset = offset
        self._gaps_path = gaps_path
        self._gaps_seen: tuple[int, int] | None = None
        self._gaps: list[dict[str, Any]] = []
        self._gaps_told = 0
        self._fd = -1
        self._size = offset
        self._acked = offset
        self.more = True
        """Whether there may be bytes that were not read yet."""
        self.final = False
        """Whether nothing tells of further bytes, so that only an empty read is the end."""
        self._pace_s = pace_s
        self._read_at = float("-inf")
        """When bytes were found last."""
        self._next_look = 0.0
        self._hurried = False
        self._lingers = True
        """Nobody tells one that has just begun that lines were coming all the while."""

    @property
    def window_open(self) -> bool:
        """Whether the daemon has stored enough of what was sent to be sent more."""
        return self.offset - self._acked < WINDOW_BYTES

    @property
    def ready(self) -> bool:
        """Whether `step` would do something."""
        return self.more and self.window_open and self.wait_s == 0.0

    @property
    def wait_s(self) -> float:
        """Seconds until bytes may go, if there are any."""
        if self.final:
            return 0.0
        due = self._next_look
        if self._hurried:
            due = min(due, self._read_at + min(HURRY_S, self._pace_s))
        return max(0.0, due - time.monotonic())

    def stir(self) -> None:
        """There are bytes: look at the next moment, at once after a pause."""
        self.more = True

    def hurry(self) -> None:
        """There are bytes that matter: look as soon as may be."""
        self.more = self._hurried = True

    def linger(self) -> None:
        """Bytes may come without a word: look again and again until there are none."""
        self.more = self._lingers = True

    def acknowledge(self, offset: int) -> None:
        """The daemon has stored everything before `offset`."""
        if self._acked < offset <= self.offset:
            self._acked = offset

    def step(self) -> list[Frame]:
        """Frames of the next chunk, without their `watch`; none at the end of the file."""
        if self._fd < 0 and not self._open():
            self.more = False
            return self._refused()
        frames = self._missing()
        room, now = self._room(), time.monotonic()
        self._hurried = False
        try:
            chunk = os.pread(self._fd, room, self.offset)
        except OSError:
            # A disk or a network file system that fails for now: the next look opens it anew.
            self.close()
            self.more = False
            return frames
        if chunk:
            frames.append(
                {
                    "kind": "bytes",
                    "stream": self._stream,
                    "offset": self.offset,
                    "data": pack(chunk),
                    "t": time.time(),
                }
            )
            self.offset += len(chunk)
            self._size = max(self._size, self.offset)
            # Whoever writes the next bytes wakes us; looking again at once doubles the work.
            self._read_at = now
            self.more = self.final or len(chunk) == room or self._lingers
            if len(chunk) < room:
                self._next_look = next_look(now, self._pace_s)
        elif not frames:
            frames = self._at_end()
            if self._lingers and not self.more and not self.final:
                self.more = self._lingers = now - self._read_at < LINGER_S
                self._next_look = next_look(now, self._pace_s)
        return frames

    def close(self) -> None:
        """Let go of the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _open(self) -> bool:
        try:
            self._fd = open_file(self._path, os.O_RDONLY)
        except OSError as exc:
            self._misplaced = self._misplaced or isinstance(exc, Misplaced)
            return False
        return True

    def _refused(self) -> list[Frame]:
        """Told once: what lies in the file's place is not read."""
        if not self._misplaced or self._told_misplaced:
            return []
        self._told_misplaced = True
        return [self._gap(0, REPLACED, self.offset)]

    def _room(self) -> int:
        """Bytes that may be read before the next known gap has to be told."""
        ahead = [int(gap["offset"]) - self.offset for gap in self._gaps]
        return min([CHUNK_BYTES, *ahead])

    def _missing(self) -> list[Frame]:
        """Gaps that the relay noted at this very place."""
        self._read_gaps()
        here = [gap for gap in self._gaps if gap["offset"] <= self.offset]
        self._gaps = [gap for gap in self._gaps if gap["offset"] > self.offset]
        return [self._gap(gap["size"], gap["reason"], self.offset) for gap in here]

    def _read_gaps(self) -> None:
        if self._gaps_path is None:
            return
        try:
            status = os.lstat(self._gaps_path)
            seen = (status.st_mtime_ns, status.st_size)
            if seen == self._gaps_seen:
                return
            lines = read_file(self._gaps_path).split(b"\n")
        except OSError:
            return
        # The relay keeps its place by 4096 blank lines: refused one by one they take 10 ms.
        records = [gap for line in lines if line and (gap := _gap_of(line)) is not None]
        fresh = records[self._gaps_told :]
        self._gaps += [gap for gap in fresh if gap["offset"] >= self.offset]
        self._gaps_told = len(records)
        self._gaps_seen = seen

    def _gap(self, size: int, reason: str, following: int) -> Frame:
        return {
            "kind": "gap",
            "stream": self._stream,
            "offset": self.offset,
            "size": size,
            "reason": reason,
            "next": following,
        }

    def _at_end(self) -> list[Frame]:
        """Nothing to read: was the file cut, replaced, or is this simply its end?"""
        here = os.fstat(self._fd)
        if here.st_size < self.offset:
            return self._restart(TRUNCATED)
        try:
            there = os.lstat(self._path)
        except OSError:
            self.more = False
            return []
        moved = (here.st_ino, here.st_dev) != (there.st_ino, there.st_dev)
        grows = stat.S_ISREG(there.st_mode) and there.st_size > 0
        # An empty new file has no writer yet, so the old one may still grow.
        if moved and grows and os.fstat(self._fd).st_size == self.offset:
            self.close()
            return self._restart(ROTATED)
        self.more = False
        return []

    def _restart(self, reason: str) -> list[Frame]:
        lost = max(0, self._size - self.offset)
        frame = self._gap(lost, reason, 0)
        self.offset = self._acked = self._size = 0
        return [frame]


def _gap_of(line: bytes) -> Frame | None:
    """A line of the relay's; None for what a program may have written among them."""
    try:
        gap = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(gap, dict) or not isinstance(gap.get("reason"), str):
        return None
    numbers = (gap.get("offset"), gap.get("size"))
    return gap if all(type(one) is int and one >= 0 for one in numbers) else None
