"""One segment of a log: a plain or a compressed file whose name is its first offset.

Must not: write into an open segment, logs.py does.
"""

import logging
import os
from dataclasses import dataclass
from pathlib import Path

import zstandard

_PLAIN = ".log"
_COMPRESSED = ".zst"
_BLOCK = 1024 * 1024

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """Bytes `start` up to `end` of a log."""

    path: Path
    start: int
    end: int

    @classmethod
    def at(cls, folder: Path, start: int, end: int) -> "Segment":
        """The plain segment that begins at `start`."""
        return cls(path=folder / f"{start:020d}{_PLAIN}", start=start, end=end)

    @property
    def compressed(self) -> bool:
        """Whether it is closed for good."""
        return self.path.suffix == _COMPRESSED

    def read(self, offset: int, size: int | None) -> bytes:
        """At most `size` bytes from `offset` on (None: to its end)."""
        wanted = self.end - offset if size is None else min(size, self.end - offset)
        try:
            with self.path.open("rb") as stream:
                if not self.compressed:
                    stream.seek(offset - self.start)
                    return stream.read(wanted)
                found = _decompressed(stream.read(), offset - self.start, wanted)
        except zstandard.ZstdError as exc:
            _say_damaged(self.path, exc)
            return b""
        except FileNotFoundError:
            # Compressed between listing and opening; the other file has the same bytes.
            packed = self.path.with_suffix(_COMPRESSED)
            if self.compressed or not packed.exists():
                return b""
            return Segment(path=packed, start=self.start, end=self.end).read(offset, size)
        if len(found) < wanted:
            _say_damaged(self.path, "it was cut short")
        return found


def of(folder: Path) -> tuple[Segment, ...]:
    """The segments of an attempt's folder, in order; empty where there is no folder."""
    if not folder.is_dir():
        return ()
    found: dict[int, Segment] = {}
    for path in folder.iterdir():
        if path.suffix not in (_PLAIN, _COMPRESSED) or not path.stem.isdigit():
            continue
        start = int(path.stem)
        # Both are there where the compressor was killed before it deleted; the plain one is whole.
        if start in found and path.suffix == _COMPRESSED:
            continue
        try:
            size = _size(path)
        except FileNotFoundError:
            return of(folder)
        except zstandard.ZstdError as exc:
            _say_damaged(path, exc)  # a hole, as if it had never been stored
            continue
        found[start] = Segment(path=path, start=start, end=start + size)
    return tuple(found[start] for start in sorted(found))


def pack(segment: Segment) -> Path | None:
    """A compressed copy beside a plain segment, on the disk; None where it stays as it is."""
    if segment.compressed or not segment.path.exists() or segment.start == segment.end:
        return None
    part = segment.path.with_suffix(".part")
    content = segment.path.read_bytes()
    try:
        with part.open("wb") as stream:
            stream.write(zstandard.ZstdCompressor(level=3, write_checksum=True).compress(content))
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as exc:
        # On a full disk of all places half a copy must not stay.
        part.unlink(missing_ok=True)
        logger.warning("segment.not_packed", extra={"path": str(segment.path), "why": str(exc)})
        return None
    return part


def swap(segment: Segment, part: Path) -> None:
    """Put the compressed copy in the place of the segment; safe to be killed in."""
    if segment.path.stat().st_size != segment.end - segment.start:
        part.unlink()
        return
    part.replace(segment.path.with_suffix(_COMPRESSED))
    segment.path.unlink()


def _say_damaged(path: Path, why: object) -> None:
    logger.error("segment.damaged", extra={"path": str(path), "why": str(why)})


def _size(path: Path) -> int:
    if path.suffix == _PLAIN:
        return path.stat().st_size
    with path.open("rb") as stream:
        return int(zstandard.get_frame_parameters(stream.read(18)).content_size)


def _decompressed(packed: bytes, skip: int, wanted: int) -> bytes:
    with zstandard.ZstdDecompressor().stream_reader(packed) as reader:
        while skip > 0:
            skipped = len(reader.read(min(skip, _BLOCK)))
            if not skipped:
                return b""
            skip -= skipped
        return reader.read(wanted)
