"""The log of an attempt: every byte in order, or a gap that says how many are missing where.

Owns `output.log` and `gaps.jsonl`. Never raises for a full disk: it keeps the newest bytes in
memory, tries again, and records as a gap what did not fit.
"""

import json
import os

from .names import GAPS_FILE, LOG_FILE, REPLACED
from .opening import Misplaced, open_file, open_folder

RING_BYTES = 8 * 1024 * 1024
GAPS_RESERVED_BYTES = 4096
DISK_FULL = "disk_full"


class LogFile:
    """Appends to the log; `retry` is to be called every now and then while `behind`."""

    def __init__(self, directory: str, *, ring_bytes: int = RING_BYTES) -> None:
        self._folder = open_folder(directory)
        self._ring_bytes = ring_bytes
        self._ring = bytearray()
        self._dropped = 0
        self.dropped_bytes = 0
        """All bytes that were ever given up."""
        self._misplaced = False
        self._fd = self._open()
        self._gaps_fd = open_file(GAPS_FILE, os.O_WRONLY | os.O_CREAT, folder=self._folder)
        # Blocks that are there already can be written on a full disk.
        os.pwrite(self._gaps_fd, b"\n" * GAPS_RESERVED_BYTES, 0)
        self._gaps_end = 0

    def _open(self) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        return open_file(LOG_FILE, flags, folder=self._folder)

    @property
    def behind(self) -> bool:
        """Whether bytes wait in memory for the disk."""
        return bool(self._ring) or self._dropped > 0

    @property
    def size(self) -> int:
        """Bytes in the file."""
        return os.fstat(self._fd).st_size

    def append(self, chunk: bytes) -> None:
        """Write, or keep for `retry`; the oldest kept bytes go first when the ring is full."""
        if not self.behind:
            chunk = chunk[self._write(chunk) :]
            if not chunk:
                return
        self._ring += chunk
        excess = len(self._ring) - self._ring_bytes
        if excess > 0:
            del self._ring[:excess]
            self._dropped += excess

    def retry(self) -> bool:
        """Write what waits; True once nothing does."""
        if self._dropped:
            if not self._record_gap(self._dropped, DISK_FULL):
                return False
            self._dropped = 0
        written = self._write(bytes(self._ring))
        del self._ring[:written]
        return not self.behind

    def give_up(self) -> None:
        """Turn what still waits into a gap: the program has ended and the disk stays full."""
        missing = self._dropped + len(self._ring)
        self._ring.clear()
        self._dropped = 0
        if missing:
            self._record_gap(missing, DISK_FULL)

    def reopen_if_moved(self) -> None:
        """Go on in a new file where somebody renamed or removed the log.

        What else is in its place is left alone: the old file goes on, and a gap says so.
        """
        here = os.fstat(self._fd)
        try:
            there = os.stat(LOG_FILE, dir_fd=self._folder, follow_symlinks=False)
            moved = (here.st_ino, here.st_dev) != (there.st_ino, there.st_dev)
        except FileNotFoundError:
            moved = True
        except OSError:
            return
        if not moved:
            self._misplaced = False
            return
        try:
            fd = self._open()
        except Misplaced:
            self._misplaced = self._misplaced or self._record_gap(0, REPLACED)
            return
        except OSError:
            return
        os.close(self._fd)
        self._fd, self._misplaced = fd, False

    def _write(self, chunk: bytes) -> int:
        """Bytes written before the disk refused."""
        done = 0
        view = memoryview(chunk)
        while done < len(chunk):
            try:
                done += os.write(self._fd, view[done:])
            except OSError:
                # ENOSPC, EDQUOT, EFBIG, EIO: whatever it is, the bytes wait in the ring.
                break
        return done

    def _record_gap(self, size: int, reason: str) -> bool:
        line = json.dumps({"offset": self.size, "size": size, "reason": reason}) + "\n"
        raw = line.encode()
        try:
            written = os.pwrite(self._gaps_fd, raw, self._gaps_end)
        except OSError:
            return False
        if written < len(raw):
            return False
        self._gaps_end += written
        self.dropped_bytes += size
        return True
