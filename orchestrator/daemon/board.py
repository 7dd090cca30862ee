"""The newest view of every target, run and incident, with a cursor that tells what changed.

It owns what clients are shown between two reads of the store, and wakes those who wait. It must
not read the store or decide anything.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any, cast

from orchestrator.api import messages
from orchestrator.clock import Clock

COALESCE_S = 0.1
KINDS = ("targets", "runs", "incidents")


class Bell:
    """Wakes everybody who waits, again and again."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def ring(self) -> None:
        """Wake all who wait now."""
        self._event.set()
        self._event = asyncio.Event()

    async def wait(self) -> None:
        """Until the next ring."""
        await self._event.wait()


class Board:
    """Views by kind and key; each change gets the next cursor."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # Starting at the time keeps a cursor of an earlier daemon below ours: it gets everything.
        self._start = int(clock.now() * 1000)
        self._cursor = self._start
        self.bell = Bell()
        self._views: dict[str, dict[str, tuple[int, Any]]] = {kind: {} for kind in KINDS}
        self._due: dict[tuple[str, str], Callable[[], Any]] = {}

    @property
    def cursor(self) -> int:
        """That of the newest change."""
        self._make_due()
        return self._cursor

    def put(self, kind: str, key: str, view: Any) -> None:
        """Show a view; an equal one is no change."""
        self._due.pop((kind, key), None)
        known = self._views[kind].get(key)
        if known is not None and known[1] == view:
            return
        self._cursor += 1
        self._views[kind][key] = (self._cursor, view)
        self.bell.ring()

    def renew(self, kind: str, key: str, make: Callable[[], Any]) -> None:
        """A view has changed: it is made once somebody looks, which at each line is seldom."""
        self._due[kind, key] = make
        self.bell.ring()

    def _make_due(self) -> None:
        due, self._due = self._due, {}
        for (kind, key), make in due.items():
            self.put(kind, key, make())

    def drop(self, kind: str, key: str) -> None:
        """Show it no more; clients that follow see it gone at their next whole snapshot."""
        self._due.pop((kind, key), None)
        self._views[kind].pop(key, None)

    def view(self, kind: str, key: str) -> Any | None:
        """The newest view, or None."""
        self._make_due()
        known = self._views[kind].get(key)
        return known[1] if known else None

    def views(self, kind: str, since: int | None = None) -> list[Any]:
        """All views, or those that changed after a cursor."""
        self._make_due()
        after = since if since is not None and since >= self._start else -1
        return [view for changed, view in self._views[kind].values() if changed > after]

    def snapshot(self, daemon: messages.DaemonView, since: int | None) -> messages.Snapshot:
        """The whole board, or what changed after `since`."""
        return messages.Snapshot(
            cursor=self.cursor,
            at=self._clock.now(),
            daemon=daemon,
            targets=cast(list[messages.TargetView], self.views("targets", since)),
            runs=cast(list[messages.RunView], self.views("runs", since)),
            incidents=cast(list[messages.IncidentView], self.views("incidents", since)),
        )

    async def changes(self, since: int) -> AsyncGenerator[int, None]:
        """A cursor each time something changed after the last one, ten times a second at most."""
        cursor = since
        while True:
            while self.cursor <= cursor:
                await self.bell.wait()
            await self._clock.sleep(COALESCE_S)
            yield cursor
            cursor = self.cursor
