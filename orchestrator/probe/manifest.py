"""What a release consists of, and how its files travel; used by both ends of a deploy.

Owns the manifest, its digest and the records of a blob chunk. Reads and writes no file.
Stdlib only and Python 3.10: shipped inside the probe.

Paths are text with surrogate escapes, relative to the release's folder: `NAME/...` is the
package, `.wheels/...` are wheels sent along. Time stamps are no part of anything here.
"""

from __future__ import annotations

import base64
import hashlib
import json
import struct
import zlib
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

FILE = "file"
LINK = "link"
FOLDER = "folder"
"""Only folders that hold nothing are entries."""

CHANGES_FILE = "changes.diff"
"""Beside a release: what was changed in it since its commit."""

UV_LOCK = "uv.lock"
"""A lock file that uv alone can install."""

WHEELS = ".wheels"
EMPTY_SHA256 = hashlib.sha256(b"").hexdigest()
DIGEST_CHARS = 16
MAX_MANIFEST_BYTES = 12 * 1024 * 1024
"""It packs to less than half; a frame holds 8 MiB and base64 adds a third."""

_VERSION = 2
_OUTSIDE = frozenset({"", ".", ".."})
_MAX_RAW_BYTES = 64 * 1024 * 1024
_LOOK_BYTES = 4096
_RECORD = struct.Struct(">32sQI")
_quoted = json.encoder.encode_basestring_ascii


class ManifestError(ValueError):
    """A manifest or a chunk that nobody of ours made."""


class Entry(NamedTuple):
    """One path of a release."""

    path: str
    kind: str
    mode: int
    """Permission bits; 0 for a link."""
    size: int
    content: str
    """SHA-256 of a file (hex), target of a link, empty for a folder."""


class Manifest(NamedTuple):
    """A whole release: its name, its entries, and what its environment is made of."""

    name: str
    entries: tuple[Entry, ...]
    setup: dict[str, Any] | None
    shared: tuple[str, ...]

    def header(self) -> str:
        """All but the entries, as the first line of the canonical text."""
        document = {
            "v": _VERSION,
            "name": self.name,
            "setup": self.setup,
            "shared": sorted(self.shared),
        }
        return json.dumps(document, sort_keys=True, separators=(",", ":"))

    def encode(self) -> bytes:
        """The canonical bytes; equal releases have equal ones."""
        return join(self.header(), map(line_of, self.entries))


def line_of(entry: Entry) -> str:
    """One entry as its line of the canonical text: what json.dumps makes of it, in less time."""
    path, kind, mode, size, content = entry
    return f'[{_quoted(path)},"{kind}",{mode},{size},{_quoted(content)}]'


def join(header: str, lines: Iterable[str]) -> bytes:
    """The canonical bytes of lines in any order."""
    return "\n".join([header, *sorted(lines)]).encode("ascii")


def digest_of(encoded: bytes) -> str:
    """The name of the release that a manifest describes."""
    return hashlib.sha256(encoded).hexdigest()[:DIGEST_CHARS]


def decode(encoded: bytes) -> Manifest:
    """The manifest of its bytes; ManifestError where a path would leave the release."""
    try:
        header, *lines = encoded.decode("ascii").split("\n")
    except ValueError as exc:
        raise ManifestError("not a manifest") from exc
    return decode_header(header)._replace(entries=entries_of(lines))


def decode_header(header: str) -> Manifest:
    """A manifest that still lacks its entries; ManifestError as for `decode`."""
    try:
        document = json.loads(header)
        manifest = Manifest(document["name"], (), document["setup"], tuple(document["shared"]))
    except (ValueError, TypeError, KeyError) as exc:
        raise ManifestError("not a manifest") from exc
    if document.get("v") != _VERSION:
        raise ManifestError("a manifest of another version")
    _require_inside((manifest.name, *manifest.shared))
    return manifest


def entries_of(lines: Iterable[str]) -> tuple[Entry, ...]:
    """The entries of lines; ManifestError as for `decode`."""
    try:
        # One call for all of them: the parser's start costs more than a line.
        entries = tuple(Entry(*row) for row in json.loads(f"[{','.join(lines)}]"))
    except (ValueError, TypeError) as exc:
        raise ManifestError("not a manifest") from exc
    _require_inside(entry.path for entry in entries)
    return entries


def _require_inside(paths: Iterable[str]) -> None:
    for path in paths:
        if not path or "\0" in path or not _OUTSIDE.isdisjoint(path.split("/")):
            raise ManifestError(f"the path {path!r} leaves the release")


def pack(raw: bytes) -> str:
    """Bytes as compressed text for a frame."""
    return base64.b64encode(deflate(raw)).decode("ascii")


def unpack(text: str) -> bytes:
    """The bytes of `pack`; ManifestError where they are none or far too many."""
    try:
        packed = base64.b64decode(text, validate=True)
    except ValueError as exc:
        raise ManifestError("not a packed text") from exc
    return inflate(packed)


def deflate(raw: bytes) -> bytes:
    """Compressed at the cheapest level."""
    return zlib.compress(raw, 1)


def inflate(packed: bytes | bytearray) -> bytes:
    """The bytes of `deflate`; ManifestError where they are none or far too many."""
    try:
        stream = zlib.decompressobj()
        raw = stream.decompress(packed, _MAX_RAW_BYTES)
    except zlib.error as exc:
        raise ManifestError("not a packed text") from exc
    if not stream.eof:
        raise ManifestError("a packed text that is cut or too large")
    return raw


def shrinks(raw: bytes) -> bool:
    """Whether a few looks say that compressing is worth its time."""
    step = max(len(raw) // 4, _LOOK_BYTES)
    look = b"".join(raw[at : at + _LOOK_BYTES] for at in range(0, len(raw), step))
    return len(zlib.compress(look, 1)) < 0.9 * len(look)


def record_head(sha256: str, offset: int, size: int) -> bytes:
    """What stands before the `size` bytes of one file that belong at `offset` of its blob."""
    return _RECORD.pack(bytes.fromhex(sha256), offset, size)


def records(chunk: bytes | bytearray) -> Iterator[tuple[str, int, memoryview]]:
    """The parts in a chunk: SHA-256 of the whole file, offset, bytes."""
    view = memoryview(chunk)
    at = 0
    while at < len(view):
        if at + _RECORD.size > len(view):
            raise ManifestError("a chunk that is cut")
        sha, offset, size = _RECORD.unpack_from(view, at)
        at += _RECORD.size
        if at + size > len(view):
            raise ManifestError("a chunk that is cut")
        yield sha.hex(), offset, view[at : at + size]
        at += size
