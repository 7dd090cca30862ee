"""Searches a stored log where it lies, so that nobody fetches gigabytes to look for a word."""

import asyncio
import time
from collections.abc import AsyncGenerator, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from orchestrator.core.errors import UsageError
from orchestrator.core.parse.searching import Progress, Search, down, every, up
from orchestrator.daemon import queries
from orchestrator.daemon.parts import Parts
from orchestrator.store.logs import Logs

Message = dict[str, Any]
SIGN_OF_LIFE_S = 0.1
MOST_MATCHES = 10_000


async def search(
    parts: Parts, words: str, query: Mapping[str, str]
) -> AsyncGenerator[Message, None]:
    """GET /v1/runs/RUN/search: the nearest line that matches, from `offset` down or up; or all."""
    await parts.back.settle_on(words)
    run = await parts.store.runs.find(words)
    attempt = queries.asked_attempt(run, query)
    await parts.fetching.have(run, (attempt,))
    async for message in in_log(parts.store.logs, run.id, attempt, query):
        yield message


async def in_log(
    logs: Logs, run: str, attempt: int, query: Mapping[str, str]
) -> AsyncGenerator[Message, None]:
    """The search of one attempt's log, in a thread that is asked for a tenth of a second each."""
    wanted, way = query.get("words", ""), query.get("way", "down")
    if not wanted or way not in {"down", "up", "all"}:
        raise UsageError("A search needs words, and way=down, way=up or way=all.")
    offset = queries.number(query, "offset")
    look = await asyncio.to_thread(Search, wanted)
    if way == "all":
        async for message in _all(every(look, _ahead(logs.parts(run, attempt))), attempt):
            yield message
        return
    if way == "down":
        steps = down(look, _ahead(logs.parts(run, attempt, max(offset or 0, 0))))
    else:
        steps = up(look, _ahead(logs.parts_up(run, attempt, offset)))
    while (step := await asyncio.to_thread(_go_on, steps)) is not None:
        kind = "found" if step.found else "progress"
        yield {"kind": kind, "attempt": attempt, "offset": step.offset}
        if step.found:
            return
    yield {"kind": "none", "attempt": attempt}


async def _all(blocks: Iterator[list[int]], attempt: int) -> AsyncGenerator[Message, None]:
    """Every match, up to a number that nobody would go through."""
    left, ended = MOST_MATCHES, False
    while left > 0 and not ended:
        found, ended = await asyncio.to_thread(_gather, blocks, left)
        left -= len(found)
        yield {"kind": "matches", "attempt": attempt, "offsets": found}
    yield {"kind": "end", "attempt": attempt, "more": not ended}


def _gather(blocks: Iterator[list[int]], most: int) -> tuple[list[int], bool]:
    """What is found within a moment, and whether all was looked at."""
    until, found = time.monotonic() + SIGN_OF_LIFE_S, list[int]()
    for block in blocks:
        found += block
        if len(found) >= most or time.monotonic() >= until:
            return found[:most], False
    return found, True


def _ahead(parts: Iterator[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
    """The parts; while one is searched the next is read, since unpacking takes as long."""
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="search") as reader:
        coming = reader.submit(next, parts, None)
        while (part := coming.result()) is not None:
            coming = reader.submit(next, parts, None)
            yield part


def _go_on(steps: Iterator[Progress]) -> Progress | None:
    """Search for a moment: a match, how far it came, or None at the end."""
    until = time.monotonic() + SIGN_OF_LIFE_S
    for step in steps:
        if step.found or time.monotonic() >= until:
            return step
    return None
