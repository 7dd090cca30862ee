"""Files between here and a target, either way: in pieces, verified, going on where one stopped.

The two ends answer the same ops (probe/copying.py): there through a probe, here by calling them.
So one piece of code copies both ways. A source that changes meanwhile is refused, not mixed.
"""

import asyncio
import contextlib
import hashlib
import posixpath
import shlex
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from orchestrator.core.errors import OrchError, UsageError
from orchestrator.link.arriving import Entry, name_of, not_of, require_inside
from orchestrator.probe import copy_turns
from orchestrator.probe import copying as here
from orchestrator.probe.errors import OpError
from orchestrator.probe.frames import BULK_SILENCE_LIMIT_S

PIECE_BYTES = 1 << 20
PIECES_AT_ONCE = 4
FILES_AT_ONCE = 4
_WITHIN_S = 120.0
_TURN_WITHIN_S = BULK_SILENCE_LIMIT_S + 10.0
"""A copy whose connection died without a word has its turn for so long."""
_TURN_EACH_S = 0.2
_LET_GO_WITHIN_S = 2.0
"""Whoever is not heard by then: the turn ends with the other side's process as well."""
_MOST_MADE_UP_BYTES = 4 << 20

_OPS = {**here.OPS, **copy_turns.OPS}

Digest = Any
"""What `hashlib.sha256()` gives; its type has no public name."""


class End(Protocol):
    """One end of a copy: the ops of probe/copying.py."""

    async def call(
        self, op: str, *, timeout_s: float, raw: bytes | None = None, **args: Any
    ) -> Any:
        """The op's value; OrchError where it fails. `raw` becomes its `data`."""
        ...


class Here:
    """This machine as an end."""

    async def call(
        self, op: str, *, timeout_s: float, raw: bytes | None = None, **args: Any
    ) -> Any:
        """Do the op in a thread."""
        del timeout_s
        if raw is not None:
            args["data"] = raw
        try:
            return await asyncio.to_thread(_OPS[op], args, lambda _: None)
        except OpError as error:
            raise OrchError(error.message, remedy=error.remedy) from error


@dataclass(slots=True)
class Copied:
    """What a copy has done so far; `report` is called whenever it has done more."""

    report: Callable[["Copied"], None] = lambda _: None
    total_bytes: int = 0
    done_bytes: int = 0
    """Bytes that are there now, found or sent."""
    sent_bytes: int = 0
    files: int = 0
    unchanged: int = 0
    left_out: list[str] = field(default_factory=list)
    """Sockets, devices and FIFOs."""

    def add(self, *, sent: int = 0, found: int = 0) -> None:
        """Count bytes."""
        self.sent_bytes += sent
        self.done_bytes += sent + found
        self.report(self)


async def copy(source: End, path: str, to: End, to_path: str, copied: Copied) -> None:
    """Copy a file or a whole folder; a destination that is a folder gets it inside, as `cp` does.

    A folder that is not there yet is built beside its name, so that the same words mean the same
    place again where a copy was cut.
    OrchError where something could not be read, written or verified; copying again goes on.
    """
    found = _plain(source, await _call(source, "copy_look", path=path))
    if found["kind"] == here.NOTHING:
        raise UsageError(f"{path} is not there.", remedy="Look at the path and its side.")
    there = await _call(to, "copy_look", path=to_path)
    top, place = found["path"], there["path"]
    if there["kind"] == here.FOLDER or to_path.endswith("/"):
        name = name_of(path, top, trusted=isinstance(source, Here))
        place = posixpath.join(place, name)
    await _hold(to, place)
    try:
        await _copy(source, top, to, place, found, copied)
    finally:
        await _let_go(to, place)


async def _hold(to: End, place: str) -> None:
    """Wait for the turn of a place: two copies to it would write into one part."""
    try:
        async with asyncio.timeout(_TURN_WITHIN_S):
            while True:
                if await _held(to, place):
                    return
                await asyncio.sleep(_TURN_EACH_S)
    except TimeoutError as exc:
        raise OrchError(
            f"{place}: another copy to it is at work.",
            remedy="Wait until that has ended; the same words then send what is missing.",
        ) from exc


async def _held(to: End, place: str) -> bool:
    """Whether the turn is ours now; one that comes to a copy that is being cancelled goes back."""
    asking = asyncio.create_task(_call(to, "copy_hold", path=place))
    try:
        return bool((await asyncio.shield(asking))["held"])
    except asyncio.CancelledError:
        with contextlib.suppress(OrchError, TimeoutError):
            async with asyncio.timeout(_LET_GO_WITHIN_S):
                came = (await asking)["held"]
            if came:
                await _let_go(to, place)
        raise


async def _let_go(to: End, place: str) -> None:
    with contextlib.suppress(OrchError):
        await to.call("copy_let_go", timeout_s=_LET_GO_WITHIN_S, path=place)


async def _copy(source: End, top: str, to: End, place: str, found: Entry, copied: Copied) -> None:
    if found["kind"] != here.FOLDER:
        copied.total_bytes = found["size"]
        await _file(source, top, to, place, found, copied)
        return
    there = await _call(to, "copy_look", path=place)
    _require_no_link(source, place, there)
    # A name that a target tells twice would be written twice at once.
    entries = list({entry["name"]: entry async for entry in _entries(source, top)}.values())
    require_inside(top, entries)
    copied.total_bytes = sum(entry["size"] for entry in entries)
    is_new = there["kind"] == here.NOTHING
    if is_new:
        await _clear_part(to, place, there["part"], entries)
    await _folder(source, top, to, here.part_of(place) if is_new else place, entries, copied)
    if is_new:
        await _call(to, "copy_name", path=place)


def _require_no_link(source: End, place: str, there: Entry) -> None:
    """UsageError where a folder would go through a link that may be one of an earlier copy."""
    if there["link"] and not (there["kind"] == here.FOLDER and isinstance(source, Here)):
        raise UsageError(
            f"{place} is a link; no folder is copied over or through it.",
            remedy="Remove the link, or give the folder another place.",
        )


async def _clear_part(to: End, place: str, kind: str, entries: list[Entry]) -> None:
    """Remove what an earlier copy left in a new folder's part and this one does not bring."""
    part = here.part_of(place)
    if kind == here.FOLDER:
        found = [entry async for entry in _entries(to, part)]
        for name in not_of(entries, found):
            await _call(to, "copy_remove", path=posixpath.join(part, name))
    elif kind != here.NOTHING:
        await _call(to, "copy_remove", path=part)


async def _entries(source: End, top: str) -> AsyncIterator[Entry]:
    after, more = "", True
    while more:
        page = await _call(source, "copy_tree", path=top, after=after)
        for entry in page["entries"]:
            yield _plain(source, entry)
            after = entry["name"]
        # A page of nothing that promises more would go on for ever.
        more = page["more"] and bool(page["entries"])


def _plain(source: End, entry: Entry) -> Entry:
    """From a target nothing comes that runs as the user who copied it (set-uid, set-gid)."""
    return entry if isinstance(source, Here) else {**entry, "mode": entry["mode"] & 0o777}


async def _folder(
    source: End, top: str, to: End, place: str, entries: list[Entry], copied: Copied
) -> None:
    def at(base: str, entry: Entry) -> str:
        return posixpath.normpath(posixpath.join(base, entry["name"]))

    folders = [entry for entry in entries if entry["kind"] == here.FOLDER]
    for entry in folders:
        # Writable for now; its own mode comes once everything is in it.
        await _call(
            to,
            "copy_make",
            path=at(place, entry),
            kind=here.FOLDER,
            mode=entry["mode"] | 0o700,
            inside=entry["name"] != ".",
        )
    room = asyncio.Semaphore(FILES_AT_ONCE)

    async def one(entry: Entry) -> None:
        async with room:
            await _file(source, at(top, entry), to, at(place, entry), entry, copied)

    copied.left_out += [at(top, entry) for entry in entries if entry["kind"] == here.OTHER]
    try:
        async with asyncio.TaskGroup() as tasks:
            for entry in entries:
                if entry["kind"] == here.FILE:
                    tasks.create_task(one(entry))
    except* OrchError as group:
        raise group.exceptions[0] from None
    for entry in entries:
        if entry["kind"] == here.LINK:
            await _call(to, "copy_make", path=at(place, entry), kind=here.LINK, to=entry["to"])
    for entry in reversed(folders):
        await _call(to, "copy_make", path=at(place, entry), kind=here.FOLDER, mode=entry["mode"])


async def _file(source: End, path: str, to: End, place: str, entry: Entry, copied: Copied) -> None:
    if entry["kind"] != here.FILE:
        raise UsageError(f"{path} is neither a file nor a folder.")
    there = await _call(to, "copy_look", path=place)
    if there["part"] not in {here.FILE, here.NOTHING}:
        await _call(to, "copy_remove", path=here.part_of(place))
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
    now = await _call(source, "copy_look", path=path)
    if now["stamp"] != entry["stamp"]:
        # A log that grew is still what it was up to here.
        again = await _call(source, "copy_digest", path=path, size=size)
        if again["sha256"] != sha256:
            raise OrchError(f"{path} changed while it was copied.", remedy="Copy it again.")
    await _call(to, "copy_commit", path=place, size=size, sha256=sha256, mode=entry["mode"])


async def _made_up_file(
    source: End, path: str, to: End, place: str, entry: Entry, copied: Copied
) -> None:
    """A file of /proc or /sys, which has no size: what it gives when it is read, in one go."""
    part = await _call(source, "copy_read", path=path, offset=0, size=_MOST_MADE_UP_BYTES)
    content: bytes = part["data"]
    if len(content) >= _MOST_MADE_UP_BYTES:
        raise OrchError(
            f"{path} does not say how large it is, and gives more than 4 MiB.",
            remedy=f"Read what you need of it: orch exec TARGET -- head -c 10M {shlex.quote(path)}",
        )
    await _call(to, "copy_write", path=place, offset=0, raw=content, cut=True)
    digest = await asyncio.to_thread(hashlib.sha256, content)
    args = {"size": len(content), "sha256": digest.hexdigest(), "mode": entry["mode"]}
    await _call(to, "copy_commit", path=place, **args)
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
        _call(source, "copy_digest", path=path, size=size),
        _call(to, "copy_digest", path=place, size=size),
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
            _call(source, "copy_digest", path=path, size=kept),
            _call(to, "copy_digest", path=place, size=kept, part=True),
        )
        if mine == theirs:
            await _call(to, "copy_write", path=place, offset=kept, raw=b"", cut=True)
            near = path if isinstance(source, Here) else here.part_of(place)
            return kept, await asyncio.to_thread(_digest_of, near, kept)
    if size:
        await _call(to, "copy_write", path=place, offset=0, raw=b"", cut=True)
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
        part = await _call(source, "copy_read", path=path, offset=offset, size=PIECE_BYTES)
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
                asyncio.create_task(_call(to, "copy_write", path=place, offset=offset, raw=content))
            )
            await asyncio.to_thread(digest.update, content)
            copied.add(sent=len(content))
        await asyncio.gather(*writes)
    finally:
        for task in (*waiting, *writes):
            task.cancel()
        await asyncio.gather(*waiting, *writes, return_exceptions=True)


async def _call(end: End, op: str, **args: Any) -> Any:
    return await end.call(op, timeout_s=_WITHIN_S, **args)
