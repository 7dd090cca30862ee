"""Plays a file as if it were the daemon: for demonstrations, and for tests that must not vary.

A replay is JSON lines. Each has `t`, seconds from its beginning, and `kind`:

    {"t": 0, "kind": "begin", "title": "...", "now": UNIX}     the first line
    {"t": 0, "kind": "snapshot", "snapshot": {...}}            as event `snapshot`
    {"t": 2, "kind": "change", "snapshot": {...}}              as event `change`
    {"t": 0, "kind": "log", "run": RUN, "attempt": 1, "text": "..."}    appended to a log
    {"t": 0, "kind": "answer", "path": "/v1/...", "document": {...}}    to a GET or POST
    {"t": 0, "kind": "stream", "path": "/v1/...", "messages": [...]}    to a POST
    {"t": 9, "kind": "gone", "reason": "..."}                  the daemon ends
"""

import json
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from orchestrator.api.client import LogPart
from orchestrator.core.errors import ApiError, UsageError
from orchestrator.core.parse import searching
from orchestrator.core.parse.searching import Progress
from tui.fleet import Fleet
from tui.source import Frame, Matches, Message, Query

_TICK_S = 0.1


class ReplaySource:
    """A replay file, in real time or standing still at `at` seconds from its beginning."""

    def __init__(self, path: Path, *, at: float | None = None) -> None:
        lines = _read(path)
        begin = lines[0]
        self.title = str(begin["title"])
        self._lines = lines[1:]
        self._now = float(begin["now"])
        self._at = at
        self._began = time.monotonic()

    def now(self) -> float:
        """The replay's own clock."""
        return self._now + self._elapsed()

    def _elapsed(self) -> float:
        return time.monotonic() - self._began if self._at is None else self._at

    def watch(self) -> Iterator[Frame]:
        """Frames at their times; ends at once where the clock stands still."""
        fleet: Fleet | None = None
        connected = True
        pause = threading.Event()
        for line in self._lines:
            while line["t"] > self._elapsed():
                if self._at is not None:
                    return
                pause.wait(_TICK_S)
            match line["kind"]:
                case "snapshot":
                    fleet, connected = Fleet.of(line["snapshot"]), True
                    yield Frame(fleet=fleet, connected=True)
                case "change" if fleet is not None:
                    fleet = fleet.merged(line["snapshot"])
                    yield Frame(fleet=fleet, connected=connected)
                case "gone":
                    connected = False
                    yield Frame(fleet=fleet, connected=False, reason=line["reason"])
                case _:
                    pass

    def ask(
        self, method: str, path: str, body: Message | None = None, query: Query | None = None
    ) -> Message:
        """The newest answer to that path."""
        del method, body, query
        document: Message = self._newest("answer", path)["document"]
        return document

    def stream(self, path: str, body: Message) -> Iterator[Message]:
        """The newest messages for that path."""
        del body
        yield from self._newest("stream", path)["messages"]

    def offset_at(self, run: str, at: float) -> tuple[int, int]:
        """By when the replay says that it was written."""
        before = [
            line for line in self._past("log") if line["run"] == run and self._now + line["t"] < at
        ]
        return 1, sum(len(line["text"].encode()) for line in before)

    def archive(self, run: str) -> tuple[Message, bytes]:
        """There is none."""
        raise ApiError(f"A replay has no bundle of {run}.", exit_code=1)

    def search(
        self, run: str, *, attempt: int | None, words: str, way: str, offset: int
    ) -> Iterator[Progress]:
        """As a daemon would search."""
        whole = self.log(run, attempt=attempt, offset=0, size=sys.maxsize).content
        if way == "down":
            return searching.down(searching.Search(words), [(offset, whole[offset:])])
        return searching.up(searching.Search(words), [(0, whole[:offset])])

    def matches(self, run: str, *, attempt: int | None, words: str) -> Iterator[Matches]:
        """As a daemon would find them."""
        whole = self.log(run, attempt=attempt, offset=0, size=sys.maxsize).content
        for offsets in searching.every(searching.Search(words), [(0, whole)]):
            yield Matches(offsets)
        yield Matches((), ended=True)

    def log(self, run: str, *, attempt: int | None, offset: int, size: int) -> LogPart:
        """A range of the log as it is by now."""
        parts = [
            line
            for line in self._past("log")
            if line["run"] == run and attempt in {None, line.get("attempt", 1)}
        ]
        newest = max((line.get("attempt", 1) for line in parts), default=1)
        whole = "".join(line["text"] for line in parts if line.get("attempt", 1) == newest)
        content = whole.encode()
        return LogPart(content[offset : offset + size], offset, len(content), newest)

    def _past(self, kind: str) -> Iterator[dict[str, Any]]:
        elapsed = self._elapsed()
        return (line for line in self._lines if line["kind"] == kind and line["t"] <= elapsed)

    def _newest(self, kind: str, path: str) -> dict[str, Any]:
        found = [line for line in self._past(kind) if line["path"] == path]
        if not found:
            raise ApiError(f"This replay has no answer for {path}.", exit_code=1)
        return found[-1]


def _read(path: Path) -> list[dict[str, Any]]:
    """The lines of a replay; UsageError where it is none."""
    try:
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}.", remedy="Give a replay file.") from error
    except ValueError as error:
        raise UsageError(f"{path}: not JSON lines ({error}).") from error
    if not lines or lines[0].get("kind") != "begin":
        raise UsageError(f"{path}: its first line is no `begin`, so it is no replay file.")
    return lines
