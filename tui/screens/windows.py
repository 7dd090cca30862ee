"""Windows that ask: yes or no, which one, why; and one that shows how something goes."""

from collections.abc import Sequence
from typing import NamedTuple

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Checkbox, Input, OptionList, Static

from tui.cells import Cell
from tui.screens.window import Window


def _plain(title: str) -> str:
    """A title as it stands: Textual reads markup in it, and a target's words may have some."""
    return Content(title).markup


def _statics(lines: Sequence[Cell]) -> list[Static]:
    return [Static(cell.text, classes=f"kind--{cell.kind}", markup=False) for cell in lines]


class Confirm(Window[bool]):
    """Says what would be done to whom and what it costs; only `y` or Enter on it does it."""

    BINDINGS = [
        Binding("y", "yes", "yes"),
        Binding("n", "close", "no"),
        Binding("enter", "yes", "yes", show=False),
    ]

    def __init__(self, title: str, lines: Sequence[Cell], verb: str) -> None:
        super().__init__()
        self._title, self._lines, self._verb = title, lines, verb

    def compose(self) -> ComposeResult:
        """The lines, and which key does what."""
        with VerticalScroll(classes="window") as window:
            window.border_title = _plain(self._title)
            window.border_subtitle = f"y {self._verb}   n or Esc leaves it"
            yield from _statics(self._lines)

    def action_yes(self) -> None:
        """Do it."""
        self.dismiss(True)


class Choose(Window[str]):
    """One of several."""

    def __init__(self, title: str, choices: Sequence[str]) -> None:
        super().__init__()
        self._title, self._choices = title, choices

    def compose(self) -> ComposeResult:
        """A list."""
        with Vertical(classes="window") as window:
            window.border_title = _plain(self._title)
            window.border_subtitle = "Enter takes it   Esc leaves it"
            yield OptionList(*self._choices, compact=True, markup=False)

    @on(OptionList.OptionSelected)
    def _chosen(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self._choices[event.option_index])


class RunWish(NamedTuple):
    """What a launch was asked with."""

    why: str
    replace: bool


class AskWhy(Window[RunWish]):
    """What this run tries, and whether it takes the place of the one that lives."""

    def __init__(self, title: str, lines: Sequence[Cell], *, lives: str | None) -> None:
        super().__init__()
        self._title, self._lines, self._lives = title, lines, lives

    def compose(self) -> ComposeResult:
        """A line to type into; a box where a run of the job lives."""
        with Vertical(classes="window") as window:
            window.border_title = _plain(self._title)
            window.border_subtitle = "Enter launches   Esc leaves it"
            yield from _statics(self._lines)
            line = Input(placeholder="why: what does this run try?", compact=True)
            line.cursor_blink = False  # a link may be slow
            yield line
            if self._lives:
                said = f"stop {self._lives} first, and wait for its GPUs"
                yield Checkbox(Content(said), compact=True)

    def on_mount(self) -> None:
        """Begin in the line."""
        self.query_one(Input).focus()

    @on(Input.Submitted)
    def _launch(self, event: Input.Submitted) -> None:
        boxes = self.query(Checkbox)
        replace = bool(boxes) and boxes.first().value
        self.dismiss(RunWish(event.value.strip(), replace))


class Activity(Window[bool]):
    """How something goes: lines as they come, a last line for its progress."""

    BINDINGS = [Binding("enter", "close", "close", show=False)]

    def __init__(self, title: str) -> None:
        super().__init__()
        self._title = title
        self.lines: list[Cell] = []

    def compose(self) -> ComposeResult:
        """An empty window that fills."""
        with VerticalScroll(classes="window", id="lines") as window:
            window.border_title = _plain(self._title)
            window.border_subtitle = "Esc closes this; it goes on"
            yield Static("The daemon is asked.", classes="kind--muted", markup=False)

    def tell(self, lines: Sequence[Cell], progress: str = "") -> None:
        """Show more lines."""
        self.lines += lines
        if not self.is_mounted:
            return
        box = self.query_one("#lines", VerticalScroll)
        if lines:
            box.mount(*_statics(lines))
            box.scroll_end(animate=False)
        box.border_title = _plain(f"{self._title}: {progress}" if progress else self._title)

    def end(self, word: str) -> None:
        """Nothing more will come."""
        if self.is_mounted:
            box = self.query_one("#lines", VerticalScroll)
            box.border_title = _plain(f"{self._title}: {word}")
            box.border_subtitle = "Enter or Esc closes this"
