"""One file of a copy: in pieces, verified, going on where an earlier one stopped.

A source that changes meanwhile is refused, not mixed. Knows nothing of folders and turns.
"""

import asyncio
import hashlib
import shlex
from pathlib import Path
from typing import Any

from orchestrator.core.errors import OrchError, UsageError
from orchestrator.link.arriving import Entry
from orchestrator.link.ends import Copied, End, Here, call
from orchestrator.probe import copying as here

PIECE_BYTES = 1 << 20
PIECES_AT_ONCE = 4
_MOST_MADE_UP_BYTES = 4 << 20

Digest = Any
"""What `hashlib.sha256()` gives; its type has no public name."""


async def copy_file(
    source: End, path: str, to: End, place: str, entry: Entry, copied: Copied
) -> None:
    """Copy a file, or see that it is there already; OrchError where it changed meanwhile."""
    if entry["kind"] != here.FILE:
        raise UsageError(f"{path} is neither a file nor a folder.")
    there = await call(to, "copy_look", path=place)
    if there["part"] not in {here.FILE, here.NOTHING}:
        await call(to, "copy_remove", path=here.part_of(place))
    if entry.get("made_up"):
        await _made_up_file(source, path, to, place, entry, copied)
        return
    size = int(entry["size"])
    copied.files += 1
    if await _is_there(source, path, to, place, there, entry):
        copied.unchanged += 1
        copied.add(found=size)
        return
    begin, digest = await _begin(source, path, to, place, min(int(there["part_bytes"]), size))
    copied.add(found=begin)
    await _send(source, path, to, place, range(begin, size, PIECE_BYTES), size, digest, copied)
    sha256 = digest.hexdigest()
    now = await call(source, "copy_look", path=path)
    if now["stamp"] != entry["stamp"]:
        # A log that grew is still what it was up to here.
        again = await call(source, "copy_digest", path=path, size=size)
        if again["sha256"] != sha256:
            raise OrchError(f"{path} changed while it was copied.", remedy="Copy it again.")
    await call(to, "copy_commit", path=place, size=size, sha256=sha256, mode=entry["mode"])


async def _made_up_file(
    source: End, path: str, to: End, place: str, entry: Entry, copied: Copied
) -> None:
    """A file of /proc or /sys, which has no size: what it gives when it is read, in one go."""
    part = await call(source, "copy_read", path=path, offset=0, size=_MOST_MADE_UP_BYTES)
    content: bytes = part["data"]
    if len(content) >= _MOST_MADE_UP_BYTES:
        raise OrchError(
            f"{path} does not say how large it is, and gives more than 4 MiB.",
            remedy=f"Read what you need of it: orch exec TARGET -- head -c 10M {shlex.quote(path)}",
        )
    await call(to, "copy_write", path=place, offset=0, raw=content, cut=True)
    digest = await asyncio.to_thread(hashlib.sha256, content)
    args = {"size": len(content), "sha256": digest.hexdigest(), "mode": entry["mode"]}
    await call(to, "copy_commit", path=place, **args)
    copied.files += 1
    copied.total_bytes += len(content) - entry["size"]
    copied.add(sent=len(content))


async def _is_there(
    source: End, path: str, to: End, place: str, there: Entry, entry: Entry
) -> bool:
    """Whether the destination is the file already; both are read where size and mode say so."""
    size = entry["size"]
    if (there["kind"], there["size"], there["mode"]) != (here.FILE, size, entry["mode"]):
        return False
    mine, theirs = await asyncio.gather(
        call(source, "copy_digest", path=path, size=size),
        call(to, "copy_digest", path=place, size=size),
    )
    return bool(mine == theirs)


async def _begin(source: End, path: str, to: End, place: str, size: int) -> tuple[int, Digest]:
    """How much of an earlier part is what we would send, and its digest; the rest is cut off.

    The newest pieces of a copy that was cut may be there with a hole before them.
    """
    for kept in (size, size - PIECES_AT_ONCE * PIECE_BYTES):
        if kept <= 0:
            break
        mine, theirs = await asyncio.gather(
            call(source, "copy_digest", path=path, size=kept),
            call(to, "copy_digest", path=place, size=kept, part=True),
        )
        if mine == theirs:
            await call(to, "copy_write", path=place, offset=kept, raw=b"", cut=True)
            near = path if isinstance(source, Here) else here.part_of(place)
            return kept, await asyncio.to_thread(_digest_of, near, kept)
    if size:
        await call(to, "copy_write", path=place, offset=0, raw=b"", cut=True)
    return 0, hashlib.sha256()


def _digest_of(path: str, size: int) -> Digest:
    """Of the first bytes of a file of this machine."""
    digest = hashlib.sha256()
    with Path(path).open("rb") as file:
        while size > 0 and (chunk := file.read(min(size, PIECE_BYTES))):
            digest.update(chunk)
            size -= len(chunk)
    return digest


async def _send(
    source: End,
    path: str,
    to: End,
    place: str,
    offsets: range,
    size: int,
    digest: Digest,
    copied: Copied,
) -> None:
    """Pieces from their first to their last, a few under way at a time; all go into `digest`."""
    waiting: list[asyncio.Task[bytes]] = []
    ahead = iter(offsets)

    async def piece(offset: int) -> bytes:
        part = await call(source, "copy_read", path=path, offset=offset, size=PIECE_BYTES)
        content: bytes = part["data"]
        if len(content) < min(PIECE_BYTES, size - offset):
            raise OrchError(f"{path} became shorter while it was copied.", remedy="Copy it again.")
        return content[: size - offset]

    writes: list[asyncio.Task[Any]] = []
    try:
        for offset in offsets:
            while len(waiting) < PIECES_AT_ONCE and (coming := next(ahead, None)) is not None:
                waiting.append(asyncio.create_task(piece(coming)))
            content = await waiting.pop(0)
            if len(writes) == PIECES_AT_ONCE:
                await writes.pop(0)
            writes.append(
                asyncio.create_task(call(to, "copy_write", path=place, offset=offset, raw=content))
            )
            await asyncio.to_thread(digest.update, content)
            copied.add(sent=len(content))
        await asyncio.gather(*writes)
    finally:
        for task in (*waiting, *writes):
            task.cancel()
        await asyncio.gather(*waiting, *writes, return_exceptions=True)
