"""Fetches what a log view wants, has searched what it does not hold, and saves the whole.

The view knows where the eye is; this asks the source, in workers of the screen.
"""

from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path

from textual.screen import Screen
from textual.worker import Worker

from orchestrator.core.errors import OrchError
from orchestrator.core.parse.searching import Progress, compiled
from tui import text
from tui.bridge import in_thread, iterate
from tui.reading import Want
from tui.source import Source
from tui.widgets.log_view import LogView

SAVED_BYTES = 4 * 1024 * 1024
"""What is asked for at a time when all is saved; the daemon gives 8 MiB at most."""


class LogReader:
    """One run's log, for one view."""

    def __init__(self, screen: Screen[None], view: LogView, source: Source, run: str) -> None:
        self._screen = screen
        self._view = view
        self._source = source
        self._run = run
        self._fetching = False
        self._words = ""
        self._matches: list[int] = []
        self._counted = ""
        """How many matches there are, so far."""
        self._searching: Worker[None] | None = None

    # --- ranges ----------------------------------------------------------------------------------

    def fetch(self, *, look: bool = False) -> None:
        """Fetch what the view wants; `look`: also see whether the log has grown."""
        if not self._fetching:
            self._fetching = True
            self._screen.run_worker(self._fetch(look=look), group="log")

    async def _fetch(self, *, look: bool) -> None:
        reading = self._view.reading
        try:
            want = reading.wanted() or (reading.newer() if look else None)
            while want is not None and await self._fetch_one(want):
                want = reading.wanted()
        finally:
            self._fetching = False

    async def _fetch_one(self, want: Want) -> bool:
        reading, attempt = self._view.reading, self._view.reading.window.attempt
        try:
            part = await in_thread(
                lambda: self._source.log(
                    self._run, attempt=attempt, offset=want.offset, size=want.size
                )
            )
        except OrchError as error:
            self._view.empty = str(error)
            self._view.changed()
            return False
        if reading.window.attempt != attempt:
            return True
        went_on = reading.take(want, part)
        self._view.changed()
        return went_on

    # --- searching -------------------------------------------------------------------------------

    def search(self, words: str) -> None:
        """Mark every match, and go to the nearest one, upwards while following."""
        self.stop()
        view = self._view
        view.pattern, self._words = compiled(words) if words else None, words
        view.remark = ""
        view.changed()
        self._matches, self._counted = [], ""
        if view.pattern is not None:
            self.search_on(-1 if view.reading.following else 1, here=True)
            self._screen.run_worker(self._count(words), group="count", exclusive=True)

    def search_on(self, way: int, *, here: bool = False) -> None:
        """Go to the next match that way; `here`: the one at the eye counts too."""
        view, reading = self._view, self._view.reading
        if view.pattern is None:
            return
        self.stop()
        place = reading.marked if reading.marked is not None else reading.place()
        if reading.following:
            place = reading.window.size
        line = reading.window.line_at(place)
        if way > 0:
            start = place if here or line is None else line.end
        else:
            start = line.offset if line is not None and not reading.following else place
        steps = self._source.search(
            self._run,
            attempt=reading.window.attempt,
            words=self._words,
            way="down" if way > 0 else "up",
            offset=start,
        )
        self._searching = self._screen.run_worker(self._search(steps, way), group="search")

    async def _search(self, steps: Iterator[Progress], way: int) -> None:
        view = self._view
        try:
            async for progress in iterate(lambda: steps):
                if progress.found:
                    view.remark = ""
                    view.reading.jump(progress.offset)
                    self._say_which()
                    view.changed(moved=True)
                    return
                view.remark = f"searching {text.size(progress.offset)}, Esc ends it"
                view.changed()
        except OrchError as error:
            view.remark = text.harmless(str(error))
            view.changed()
            return
        where, other = ("below", "N") if way > 0 else ("above", "n")
        view.remark = f"no match {where}; {other} looks the other way"
        view.changed()

    async def _count(self, words: str) -> None:
        """Learn of all matches, for as long as they are searched for."""
        attempt = self._view.reading.window.attempt
        try:
            async for part in iterate(
                lambda: self._source.matches(self._run, attempt=attempt, words=words)
            ):
                if words != self._words:
                    return
                self._matches += part.offsets
                sure = part.ended and not part.more
                self._counted = f"{len(self._matches)}{'' if sure else '+'}"
                self._say_which()
        except OrchError:
            return  # the search for the nearest one says what is wrong

    def _say_which(self) -> None:
        """Tell the place of the match that is looked at among all, where it is known."""
        marked, view = self._view.reading.marked, self._view
        at = bisect_left(self._matches, marked) if marked is not None else 0
        if at < len(self._matches) and self._matches[at] == marked:
            view.remark = f"match {at + 1} of {self._counted}"
            view.changed()

    def stop(self) -> bool:
        """End a search that goes on; whether there was one."""
        going = self._searching is not None and self._searching.is_running
        if going and self._searching is not None:
            self._searching.cancel()
            self._view.remark = "search ended"
            self._view.changed()
        return going

    # --- going to a time -------------------------------------------------------------------------

    def jump_to(self, at: float) -> None:
        """Go to what was written at a unix time or next."""
        self._screen.run_worker(self._jump_to(at), group="jump", exclusive=True)

    async def _jump_to(self, at: float) -> None:
        try:
            attempt, offset = await in_thread(lambda: self._source.offset_at(self._run, at))
        except OrchError as error:
            self._view.remark = text.harmless(str(error))
            self._view.changed()
            return
        reading = self._view.reading
        if attempt != reading.window.attempt:
            reading.told(attempt, 0)
        reading.jump(offset)
        self._view.changed(moved=True)

    # --- saving ----------------------------------------------------------------------------------

    async def save(self, folder: Path) -> Path:
        """Write the whole log, raw as it was stored, to a new file in the folder."""
        attempt = self._view.reading.window.attempt or 1
        path = folder / f"{self._run}.{attempt}.log"

        def read(offset: int) -> bytes:
            return self._source.log(
                self._run, attempt=attempt, offset=offset, size=SAVED_BYTES
            ).content

        def copy() -> None:
            with path.open("xb") as file:
                at = 0
                while content := read(at):
                    file.write(content)
                    at += len(content)

        await in_thread(copy)
        return path
