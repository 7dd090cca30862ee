"""The silences that last: which alerts nobody is told of, and a key that ends one."""

from collections.abc import Iterable, Mapping
from typing import Any

from textual import work
from textual.widget import Widget

from orchestrator.core.errors import OrchError
from tui import keys, silences, text
from tui.bridge import in_thread
from tui.options import Options
from tui.screens.page import Page
from tui.source import Source
from tui.widgets.table import Table

_AGAIN_S = 1.0


class SilencesScreen(Page):
    """One table, asked for again while it is looked at."""

    PLACE = "silences"
    CSS_PATH = "silences.tcss"
    BINDINGS = keys.bindings("silences")

    def __init__(self, *, options: Options, source: Source) -> None:
        super().__init__(options)
        self._source = source
        self._silences: list[Mapping[str, Any]] = []
        self._empty: tuple[str, ...] = ("", "Asking the daemon ...")

    def parts(self) -> Iterable[Widget]:
        """The table."""
        yield Table(silences.COLUMNS, id="silences")

    def on_mount(self) -> None:
        """Begin in the table, and ask."""
        self.query_one(Table).focus()
        self._fetch()
        self.set_interval(_AGAIN_S, self._fetch)

    @work(group="silences", exclusive=True)
    async def _fetch(self) -> None:
        if not self.is_current:
            return
        try:
            found = await in_thread(lambda: self._source.ask("GET", "/v1/silences"))
        except OrchError as error:
            self._empty = ("", *filter(None, (text.harmless(error.message), error.remedy)))
        else:
            self._silences, self._empty = found["silences"], silences.EMPTY
        self.paint()

    def paint(self) -> None:
        """Show them as they were told last."""
        rows = silences.silence_rows(self._silences, self.sight.now)
        self.query_one(Table).show(rows, empty=self._empty)

    def subject(self) -> dict[str, str | None]:
        """The silence under the cursor."""
        return {"silence": self.query_one(Table).cursor if self._silences else None}
