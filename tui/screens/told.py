"""A page of text about a run that the daemon tells when asked: history, changes, environment."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from textual import work
from textual.widget import Widget

from orchestrator.core.errors import OrchError
from tui import history, keys, text
from tui.bridge import in_thread
from tui.cells import Cell
from tui.options import Options
from tui.screens.page import Page
from tui.source import Source, run_path
from tui.story import Paragraph
from tui.widgets.prose import Prose, prose_lines

_AGAIN_S = 5.0


class Subject(NamedTuple):
    """What is asked for, and how it is told."""

    rest: str
    """The path below the run's."""
    tell: Callable[[Mapping[str, Any]], list[Paragraph]]


SUBJECTS = {
    "history": Subject("/timeline", history.timeline),
    "changes": Subject("/diff", history.changes),
    "environment": Subject("/environment", history.environment),
}


class ToldScreen(Page):
    """One subject about one run; asked for again while it is looked at."""

    PLACE = "told"
    CSS_PATH = "incident.tcss"
    BINDINGS = keys.bindings("told")

    def __init__(self, subject: str, run: str, *, options: Options, source: Source) -> None:
        super().__init__(options)
        self.run_id = run
        self._title, self._subject, self._source = subject, SUBJECTS[subject], source

    @property
    def heading(self) -> str:
        """The subject."""
        return self._title

    def parts(self) -> Iterable[Widget]:
        """One text that scrolls."""
        yield Prose(id="story")

    def on_mount(self) -> None:
        """Take the keys that scroll, and ask."""
        self.query_one(Prose).focus()
        self._fetch()
        self.set_interval(_AGAIN_S, self._fetch)

    @work(group="told", exclusive=True)
    async def _fetch(self) -> None:
        if not self.is_current:
            return
        path = run_path(self.run_id, self._subject.rest)
        try:
            told = self._subject.tell(await in_thread(lambda: self._source.ask("GET", path)))
        except OrchError as error:
            lines = text.harmless(str(error.message)), text.harmless(error.remedy or "")
            told = [Paragraph(self.run_id, tuple(Cell(line, "warn") for line in lines if line))]
        self.query_one(Prose).show(prose_lines(told))

    def action_copy(self) -> None:
        """Copy the whole."""
        self.query_one(Prose).copy()
