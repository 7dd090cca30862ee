"""The bytes that attempts printed: segments as files, exact by offset.

    FOLDER/<run>/<attempt>/<start offset, 20 digits>.log     an open or closed segment
    FOLDER/<run>/<attempt>/<start offset, 20 digits>.zst     a closed one, compressed
    FOLDER/<run>/uid                                         second half of its folder's name
    FOLDER/<run>/<attempt>/times                             when which offset was seen (times.py)

How far a log is stored follows from the files alone: name plus size. A hole is the distance
between the end of a segment and the name of the next one. So nothing can disagree with it, and a
daemon killed with -9 loses no byte that `append` returned for: they are the kernel's then.
Writes are plain and fast and are made by one task; reads may come from other threads.
Must not: look into the bytes.
"""

import os
import re
import shutil
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.core.errors import StoreError
from orchestrator.store import segments, times
from orchestrator.store.claims import read_claim, write_claim
from orchestrator.store.segments import Segment

LOG_FOLDER = "logs"
"""Of the state folder: what runs printed."""
SEGMENT_BYTES = 16 * 1024 * 1024

_TIMES = "times"
_RUN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]*\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """What an append added."""

    fresh: bytes
    """The part of the chunk that was not stored before."""
    gap: int
    """Bytes between the end of what was stored and the chunk; they are lost."""


@dataclass(slots=True)
class _Writer:
    """The open segment of one attempt."""

    folder: Path
    fd: int
    start: int
    end: int
    times_fd: int
    timed_at: float = field(default=float("-inf"))

    @property
    def segment(self) -> Segment:
        """What is written so far."""
        return Segment.at(self.folder, self.start, self.end)


class Logs:
    """All stored logs under one folder."""

    def __init__(self, folder: Path, *, segment_bytes: int = SEGMENT_BYTES) -> None:
        self._folder = folder
        self._segment_bytes = segment_bytes
        self._writers: dict[tuple[str, int], _Writer] = {}
        self._closer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="logs")
        self._lock = threading.Lock()
        """Held while a segment is opened, or gives way to its compressed form."""

    def append(self, run: str, attempt: int, offset: int, chunk: bytes, at: float) -> Appended:
        """Store the bytes that begin at `offset`, seen at unix time `at`; known ones are skipped.

        Raises StoreError where the disk takes no more; `end` then says from where to go on.
        """
        with self._storing(run, attempt) as writer:
            return self._append(writer, offset, chunk, at)

    @contextmanager
    def _storing(self, run: str, attempt: int) -> Iterator[_Writer]:
        try:
            yield self._writer(run, attempt)
        except OSError as exc:
            self._drop(run, attempt)
            raise StoreError(
                f"The output of {run} cannot be stored: {exc.strerror}.",
                remedy=f"Free some space under {self._folder}; it goes on where it stopped.",
            ) from exc

    def _append(self, writer: _Writer, offset: int, chunk: bytes, at: float) -> Appended:
        fresh = chunk[max(0, writer.end - offset) :]
        if not fresh:
            return Appended(fresh=b"", gap=0)
        gap = max(0, offset - writer.end)
        if gap or writer.end - writer.start >= self._segment_bytes:
            self._next_segment(writer, max(offset, writer.end))
        self._write(writer, fresh)
        if at - writer.timed_at >= times.EVERY_S:
            times.note(writer.times_fd, writer.end - len(fresh), at)
            writer.timed_at = at
        return Appended(fresh=fresh, gap=gap)

    def gap(self, run: str, attempt: int, offset: int, size: int) -> None:
        """Bytes from `offset` on are lost: go on behind them. What is stored stays stored.

        Raises StoreError as `append` does.
        """
        with self._storing(run, attempt) as writer:
            if offset + size > writer.end:
                self._next_segment(writer, offset + size)

    def end(self, run: str, attempt: int) -> int:
        """The offset behind the last stored byte; what is to be asked for next."""
        writer = self._writers.get((run, attempt))
        if writer is not None:
            return writer.end
        found = segments.of(self._path(run, attempt))
        return found[-1].end if found else 0

    def read(self, run: str, attempt: int, offset: int, size: int) -> bytes:
        """At most `size` bytes from `offset` on; holes are skipped, so it may reach further."""
        return b"".join(part for _, part in self.parts(run, attempt, offset, size))

    def parts(
        self, run: str, attempt: int, offset: int = 0, size: int | None = None
    ) -> Iterator[tuple[int, bytes]]:
        """Stored bytes from `offset` on, with their offsets; a hole shows as a jump between two."""
        left = size
        for segment in segments.of(self._path(run, attempt)):
            if segment.end <= offset or left == 0:
                continue
            part = segment.read(max(offset, segment.start), left)
            if part:
                yield max(offset, segment.start), part
                left = None if left is None else left - len(part)

    def parts_up(
        self, run: str, attempt: int, end: int | None = None
    ) -> Iterator[tuple[int, bytes]]:
        """Stored bytes before `end` (None: all), the last part first, with their offsets."""
        for segment in reversed(segments.of(self._path(run, attempt))):
            size = segment.end - segment.start if end is None else end - segment.start
            if size > 0 and (part := segment.read(segment.start, size)):
                yield segment.start, part

    def tail(self, run: str, attempt: int, size: int) -> bytes:
        """The last `size` bytes, or all where there are fewer."""
        parts: list[bytes] = []
        for segment in reversed(segments.of(self._path(run, attempt))):
            if size <= 0:
                break
            parts.append(segment.read(max(segment.start, segment.end - size), None))
            size -= len(parts[-1])
        return b"".join(reversed(parts))

    def attempts(self, run: str) -> tuple[int, ...]:
        """Attempts of a run that have a log, in order."""
        folder = self._run_path(run)
        if not folder.is_dir():
            return ()
        return tuple(sorted(int(one.name) for one in folder.iterdir() if one.name.isdigit()))

    def offset_at(self, run: str, attempt: int, at: float) -> int:
        """The offset of the first bytes that may have been seen at unix time `at` or later."""
        return times.offset_at(self._path(run, attempt) / _TIMES, at, self.end(run, attempt))

    def close(self, run: str, attempt: int) -> None:
        """The attempt has ended: its log is put on the disk and compressed, in a thread.

        It can be read all the while, and appended to again.
        """
        writer = self._writers.pop((run, attempt), None)
        if writer is not None:
            self._closer.submit(self._finish, writer.fd, writer.segment)
            self._closer.submit(_sync_and_close, writer.times_fd)

    def _drop(self, run: str, attempt: int) -> None:
        # After a failed write: the files say what is stored, so the next append looks there.
        writer = self._writers.pop((run, attempt), None)
        if writer is not None:
            os.close(writer.fd)
            os.close(writer.times_fd)

    def close_all(self) -> None:
        """Put every open log on the disk, to be gone on with by the next daemon."""
        for writer in self._writers.values():
            self._closer.submit(_sync_and_close, writer.fd)
            self._closer.submit(_sync_and_close, writer.times_fd)
        self._writers.clear()
        self._closer.shutdown()

    def claim(self, run: str, uid: str) -> None:
        """Remember that a run is ours, should the database be lost; a target may have namesakes."""
        try:
            write_claim(self._run_path(run), uid)
        except OSError as exc:
            raise StoreError(
                f"{run} cannot be stored: {exc.strerror}.",
                remedy=f"Free some space under {self._folder}.",
            ) from exc

    def claimed(self) -> dict[str, str]:
        """Run -> uid of every run that is ours."""
        found = {run: read_claim(self._run_path(run)) for run in self.runs()}
        return {run: uid for run, uid in found.items() if uid is not None}

    def written_at(self) -> float:
        """When a byte was stored last, unix seconds; 0 where none ever was."""
        files = (one for one in self._folder.rglob("*") if one.is_file())
        return max((one.stat().st_mtime for one in files), default=0.0)

    def runs(self) -> tuple[str, ...]:
        """Ids of the runs that have a log."""
        if not self._folder.is_dir():
            return ()
        return tuple(sorted(one.name for one in self._folder.iterdir() if one.is_dir()))

    def disk_bytes(self, run: str) -> int:
        """What a run's logs take on the disk."""
        return sum(one.stat().st_size for one in self._run_path(run).rglob("*") if one.is_file())

    def forget(self, run: str) -> None:
        """Delete the logs of a run."""
        for key in tuple(self._writers):
            if key[0] == run:
                self.close(*key)
        shutil.rmtree(self._run_path(run), ignore_errors=True)

    def _run_path(self, run: str) -> Path:
        if not _RUN.match(run):
            raise StoreError(f"{run!r} is no run's id.", remedy="`orch ps -a` lists all runs.")
        return self._folder / run

    def _path(self, run: str, attempt: int) -> Path:
        return self._run_path(run) / str(int(attempt))

    def _writer(self, run: str, attempt: int) -> _Writer:
        known = self._writers.get((run, attempt))
        if known is not None:
            return known
        folder = self._path(run, attempt)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with self._lock:
            return self._opened(run, attempt, folder)

    def _opened(self, run: str, attempt: int, folder: Path) -> _Writer:
        found = segments.of(folder)
        last = found[-1] if found else Segment.at(folder, 0, 0)
        if last.compressed:
            last = Segment.at(folder, last.end, last.end)
        times_fd = times.opened(folder / _TIMES)
        try:
            fd = _open(last.path)
        except OSError:
            os.close(times_fd)
            raise
        writer = _Writer(folder, fd, last.start, last.end, times_fd)
        self._writers[run, attempt] = writer
        return writer

    def _next_segment(self, writer: _Writer, start: int) -> None:
        if writer.end == writer.start and start == writer.start:
            return
        fd = _open(Segment.at(writer.folder, start, start).path)
        full_fd, full = writer.fd, writer.segment
        writer.fd, writer.start, writer.end = fd, start, start
        # Not before: a segment that has a writer stays as it is.
        self._closer.submit(self._finish, full_fd, full)

    def _finish(self, fd: int, segment: Segment) -> None:
        _sync_and_close(fd)
        part = segments.pack(segment)
        if part is None:
            return
        with self._lock:
            # A copy at once: others open and close logs meanwhile.
            if any(one.segment.path == segment.path for one in tuple(self._writers.values())):
                part.unlink()
            else:
                segments.swap(segment, part)

    @staticmethod
    def _write(writer: _Writer, chunk: bytes) -> None:
        view = memoryview(chunk)
        while view:
            written = os.write(writer.fd, view)
            writer.end += written
            view = view[written:]


def _open(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)


def _sync_and_close(fd: int) -> None:
    os.fsync(fd)
    os.close(fd)
