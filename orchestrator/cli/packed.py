"""A log that was packed -> its bytes: gzip, bzip2, xz and zstd, told by what it begins with.

Owns the formats. Must not: unpack archives of several files; those are no log.
"""

import bz2
import gzip
import lzma
import re
import zlib
from collections.abc import Iterator
from io import BufferedReader
from typing import Protocol

from orchestrator.core.errors import UsageError

_LONGEST_MARK = 10
_BZIP2 = re.compile(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)")
"""With the mark of its first block: a text may begin with the same letters."""


class _Readable(Protocol):
    def read(self, size: int = -1, /) -> bytes: ...


def pieces(name: str, stream: BufferedReader, size: int) -> Iterator[bytes]:
    """The text of a log in pieces of at most that size; UsageError where it cannot be unpacked."""
    kind, text = _opened(stream)
    broken: tuple[type[Exception], ...] = (EOFError, OSError, lzma.LZMAError, zlib.error)
    if kind == "zstd":
        import zstandard

        broken = (zstandard.ZstdError,)
    if not kind:
        broken = ()
    try:
        while piece := text.read(size):
            yield piece
    except broken as error:
        raise UsageError(
            f"{name}: the {kind} file cannot be unpacked to its end: {error}.",
            remedy="Copy it again, or give what can be read of it: zcat FILE | orch diagnose -",
        ) from error


def _opened(stream: BufferedReader) -> tuple[str, _Readable]:
    first = stream.peek(_LONGEST_MARK)
    if first.startswith(b"\x1f\x8b"):
        return "gzip", gzip.GzipFile(fileobj=stream)
    if _BZIP2.match(first):
        return "bzip2", bz2.BZ2File(stream)
    if first.startswith(b"\xfd7zXZ\x00"):
        return "xz", lzma.LZMAFile(stream)
    if first.startswith(b"\x28\xb5\x2f\xfd"):
        import zstandard

        return "zstd", zstandard.ZstdDecompressor().stream_reader(stream, read_across_frames=True)
    return "", stream
