"""Every key and what it does, from the one registry."""

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.widgets import Static

from tui import keys
from tui.screens.window import Window

_WIDTH = 12
_TITLES = {
    "app": "Everywhere",
    "fleet": "Fleet",
    "run": "Run",
    "incident": "Incident",
    "top": "GPUs",
}
_MOVING = (
    ("Up Down", "Move; j and k do the same."),
    ("PgUp PgDn", "Move by screenfuls."),
    ("Home End", "First and last; g and G do the same."),
    ("Tab", "Go to the next part of the screen."),
)


def help_text(page: str, *, read_only: bool) -> str:
    """The list for a page: its own keys first, then those that work everywhere."""
    order = [page, "app"] if page in keys.PAGES else ["app"]
    order += [other for other in keys.PAGES if other not in order]
    blocks = []
    for name in order:
        lines = [_line(key, read_only=read_only) for key in keys.at(name)]
        blocks.append("\n".join([_TITLES[name], *lines]))
    moving = [f"  {names:<{_WIDTH}} {said}" for names, said in _MOVING]
    blocks.insert(1, "\n".join(["Moving about", *moving]))
    return "\n\n".join(blocks)


def _line(key: keys.Key, *, read_only: bool) -> str:
    said = key.help
    if key.changes and read_only:
        said += " (not with --read-only)"
    return f"  {key.names:<{_WIDTH}} {said}"


class HelpScreen(Window[None]):
    """Closed by any of the keys that open or leave something."""

    BINDINGS = [Binding("question_mark,enter", "close", "close", show=False)]

    def __init__(self, page: str, *, read_only: bool) -> None:
        super().__init__()
        self._text = help_text(page, read_only=read_only)

    def compose(self) -> ComposeResult:
        """One long text that scrolls."""
        with VerticalScroll(id="window", classes="window") as window:
            window.border_title = "keys"
            window.border_subtitle = "Esc closes"
            yield Static(self._text, markup=False)
