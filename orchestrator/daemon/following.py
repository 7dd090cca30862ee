"""A run's log as it grows, and what happens to the run meanwhile.

Owns the stream `follow` and a reader's place over the attempts of a run. It changes nothing.
"""

import asyncio
import codecs
from collections.abc import AsyncGenerator, Mapping
from typing import Any

from orchestrator.core.model import ENDS
from orchestrator.daemon import queries
from orchestrator.daemon.moments import offset_since
from orchestrator.daemon.parts import Parts

Message = dict[str, Any]
CHUNK_BYTES = 256 * 1024

_utf8 = codecs.getincrementaldecoder("utf-8")
"""A character may be cut by the end of a chunk; what is no UTF-8 shows as U+FFFD."""


async def follow(
    parts: Parts, words: str, query: Mapping[str, str]
) -> AsyncGenerator[Message, None]:
    """GET /v1/runs/RUN/follow: the log as it grows, and what happens to the run, to its end."""
    await parts.back.settle_on(words)
    run = await parts.store.runs.find(words)
    tail = queries.number(query, "tail")
    attempt = queries.asked_attempt(run, query)
    await parts.fetching.have(run, range(attempt, run.attempt + 1))
    cursor = _Cursor(attempt=attempt, offset=queries.number(query, "offset") or 0)
    if tail is not None:
        end = parts.store.logs.end(run.id, cursor.attempt)
        lines = await asyncio.to_thread(queries.last_lines, parts, run, cursor.attempt, tail)
        cursor.offset = end - len(lines)
    since = await asyncio.to_thread(offset_since, parts, run.id, attempt, query)
    cursor.offset = cursor.offset if since is None else since
    seen: dict[str, Any] = {}
    while True:
        bell = parts.crew.display.bell(run.id)
        rung = asyncio.ensure_future(bell.wait())
        try:
            view = await parts.crew.display.view(run.id)
            for message in _news(parts, run.id, view, seen):
                yield message
            found = cursor.read(parts, run.id, view["attempt"])
            for part in found:
                yield part
            at_end = cursor.at_end(parts, run.id, view["attempt"], found)
            if view["state"] in ENDS and at_end:
                yield {"kind": "end", "run": view}
                return
            if at_end:
                await rung
        finally:
            rung.cancel()


class _Cursor:
    """Where a reader of a run's logs is, over its attempts."""

    def __init__(self, *, attempt: int, offset: int) -> None:
        self.attempt, self.offset = attempt, offset
        self._decoder = _utf8("replace")

    def at_end(self, parts: Parts, run: str, newest: int, found: list[Message]) -> bool:
        """Whether there is no more, `found` being the last that was read.

        Where nothing was, the rest is a hole: a damaged file, or a folder removed under us.
        """
        end = parts.store.logs.end(run, self.attempt)
        return self.attempt >= newest and (self.offset >= end or not found)

    def read(self, parts: Parts, run: str, newest: int) -> list[Message]:
        """The next parts, a quarter of a megabyte or so."""
        found: list[Message] = []
        for offset, chunk in parts.store.logs.parts(run, self.attempt, self.offset, CHUNK_BYTES):
            if offset > self.offset:
                size = offset - self.offset
                found.append(
                    {
                        "kind": "gap",
                        "attempt": self.attempt,
                        "offset": self.offset,
                        "size": size,
                        "reason": "these bytes could not be had",
                    }
                )
            end = offset + len(chunk)
            text = self._decoder.decode(chunk)
            found.append(
                {
                    "kind": "log",
                    "attempt": self.attempt,
                    "offset": offset,
                    "end": end,
                    "text": text,
                }
            )
            self.offset = end
        if not found and self.attempt < newest:
            self.attempt, self.offset, self._decoder = self.attempt + 1, 0, _utf8("replace")
        return found


def _news(parts: Parts, run: str, view: Mapping[str, Any], seen: dict[str, Any]) -> list[Message]:
    """What is new of the run, its incident and its link since the last look."""
    news: list[Message] = []
    if seen.get("run") != view:
        seen["run"] = view
        news.append({"kind": "run", "run": view})
    if seen.setdefault("link", view["link"]) != view["link"]:
        seen["link"] = view["link"]
        target = parts.board.view("targets", view["target"]) or {}
        news.append(
            {
                "kind": "link",
                "state": view["link"],
                "seen_at": view["seen_at"],
                "reason": target.get("error"),
            }
        )
    for incident_shown in parts.board.views("incidents"):
        key = f"incident {incident_shown['id']}"
        if incident_shown["run"] == run and seen.get(key) != incident_shown:
            seen[key] = incident_shown
            news.append({"kind": "incident", "incident": incident_shown})
    return news
