"""The content of a bundle's files, as records in pieces on their way to a target.

Owns that a file is what it was when it was hashed. Memory stays flat in the size of it all.
"""

import os
from collections.abc import Iterable, Iterator

from orchestrator.core.errors import DeployError
from orchestrator.deploy.bundle import Bundle
from orchestrator.deploy.hashes import Source, identity_of
from orchestrator.deploy.walk import shown
from orchestrator.probe import manifest as wire


def read_pieces(
    bundle: Bundle, wanted: Iterable[str], sizes: Iterator[int]
) -> Iterator[tuple[bytes, int]]:
    """Pieces of records for the wanted files, of those sizes in bytes or a little more, one by one.

    With each the bytes of content in it. DeployError where a file no longer is what was hashed;
    memory stays flat.
    """
    pending: list[bytes] = []
    piece_bytes = next(sizes)
    held = content = 0
    for sha in wanted:
        offset = 0
        for part in _parts_of(bundle.sources[sha], piece_bytes):
            head = wire.record_head(sha, offset, len(part))
            pending += (head, part)
            offset += len(part)
            content += len(part)
            held += len(head) + len(part)
            if held >= piece_bytes:
                yield b"".join(pending), content
                pending, held, content = [], 0, 0
                piece_bytes = next(sizes)
    if pending:
        yield b"".join(pending), content


def _parts_of(source: Source, size: int) -> Iterator[bytes]:
    """A file's content; what it is was hashed before and is hashed again where it arrives."""
    left = source.identity[0]
    try:
        fd = os.open(source.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            while left and (part := os.read(fd, min(left, size))):
                left -= len(part)
                yield part
            if left or identity_of(os.fstat(fd)) != source.identity:
                raise DeployError(
                    f"{shown(source.path)} changed while it was being sent.",
                    remedy="Deploy again.",
                )
        finally:
            os.close(fd)
    except OSError as exc:
        raise DeployError(
            f"{shown(source.path)} cannot be read any more ({exc.strerror}).",
            remedy="Deploy again.",
        ) from exc
