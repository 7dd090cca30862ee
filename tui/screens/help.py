"""Every key and what it does, from the one registry."""

from collections.abc import Iterator

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical

from tui import keys
from tui.cells import Cell
from tui.screens.window import Window
from tui.widgets.prose import Line, Prose

_WIDTH = 13
_TITLES = {
    "app": "Everywhere",
    "fleet": "Fleet",
    "run": "Run",
    "incident": "Incident",
    "top": "GPUs",
    "told": "History, changes, environment",
    "plots": "Plots",
    "silences": "Silences",
}
_MOVING = (
    ("Up Down", "Move; j and k do the same."),
    ("PgUp PgDn", "Move by screenfuls."),
    ("Home End", "First and last; g and G do the same."),
    ("Tab", "Go to the next part of the screen."),
)


def help_rows(page: str, *, read_only: bool) -> list[tuple[str, str]]:
    """Keys and what they do: the page's own first; a title has no second part."""
    order = [page, "app"] if page in keys.PAGES else ["app"]
    order += [other for other in keys.PAGES if other not in order]
    found: list[tuple[str, str]] = []
    for number, name in enumerate(order):
        found.append((_TITLES[name], ""))
        found += [_row(key, read_only=read_only) for key in keys.at(name)]
        if number == 0:
            found += [("Moving about", ""), *_MOVING]
    return found


def _row(key: keys.Key, *, read_only: bool) -> tuple[str, str]:
    refused = " Not with --read-only." if key.changes and read_only else ""
    return key.names, f"{key.help}{refused}"


class HelpScreen(Window[None]):
    """Closed by any of the keys that open or leave something."""

    BINDINGS = [Binding("question_mark,enter", "close", "close", show=False)]

    def __init__(self, page: str, *, read_only: bool) -> None:
        super().__init__()
        self._rows = help_rows(page, read_only=read_only)

    def compose(self) -> ComposeResult:
        """One long list that scrolls."""
        with Vertical(classes="window") as window:
            window.border_title = "keys"
            window.border_subtitle = "Esc closes"
            yield Prose(id="keys")

    def on_mount(self) -> None:
        """Write the list, and take the keys that scroll it."""
        prose = self.query_one(Prose)
        prose.show(_lines(self._rows))
        prose.focus()


def _lines(rows: list[tuple[str, str]]) -> Iterator[Line]:
    for number, (names, said) in enumerate(rows):
        if said:
            yield Line(Cell(f"{names:<{_WIDTH}} {said}"), indent=2, hang=_WIDTH + 1)
        else:
            if number:
                yield Line(Cell(""))
            yield Line(Cell(names, "strong"))
