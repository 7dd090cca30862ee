"""Files between here and a target, either way: a file or a tree of them, and whose turn it is.

Both ends answer the same ops (ends.py), so one piece of code copies both ways. What becomes of the
bytes of a file is one_file.py's.
"""

import asyncio
import contextlib
import posixpath
from collections.abc import AsyncIterator

from orchestrator.core.errors import OrchError, UsageError
from orchestrator.link.arriving import Entry, name_of, not_of, require_inside
from orchestrator.link.ends import Copied, End, Here, call
from orchestrator.link.one_file import copy_file
from orchestrator.probe import copying as here
from orchestrator.probe.frames import BULK_SILENCE_LIMIT_S

FILES_AT_ONCE = 4
_TURN_WITHIN_S = BULK_SILENCE_LIMIT_S + 10.0
"""A copy whose connection died without a word has its turn for so long."""
_TURN_EACH_S = 0.2
_LET_GO_WITHIN_S = 2.0
"""Whoever is not heard by then: the turn ends with the other side's process as well."""


async def copy(source: End, path: str, to: End, to_path: str, copied: Copied) -> None:
    """Copy a file or a whole folder; a destination that is a folder gets it inside, as `cp` does.

    A folder that is not there yet is built beside its name, so that the same words mean the same
    place again where a copy was cut.
    OrchError where something could not be read, written or verified; copying again goes on.
    """
    found = _plain(source, await call(source, "copy_look", path=path))
    if found["kind"] == here.NOTHING:
        raise UsageError(f"{path} is not there.", remedy="Look at the path and its side.")
    there = await call(to, "copy_look", path=to_path)
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
    asking = asyncio.create_task(call(to, "copy_hold", path=place))
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
        await copy_file(source, top, to, place, found, copied)
        return
    there = await call(to, "copy_look", path=place)
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
        await call(to, "copy_name", path=place)


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
            await call(to, "copy_remove", path=posixpath.join(part, name))
    elif kind != here.NOTHING:
        await call(to, "copy_remove", path=part)


async def _entries(source: End, top: str) -> AsyncIterator[Entry]:
    after, more = "", True
    while more:
        page = await call(source, "copy_tree", path=top, after=after)
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
        await call(
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
            await copy_file(source, at(top, entry), to, at(place, entry), entry, copied)

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
            await call(to, "copy_make", path=at(place, entry), kind=here.LINK, to=entry["to"])
    for entry in reversed(folders):
        await call(to, "copy_make", path=at(place, entry), kind=here.FOLDER, mode=entry["mode"])
