"""A text that scrolls and wraps: paragraphs, lists, tracebacks; one widget however long it is."""

import textwrap
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from rich.segment import Segment
from textual.binding import Binding
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from tui import text
from tui.cells import Cell
from tui.story import Paragraph
from tui.widgets.paint import KIND_CLASSES, kind_style


class Line(NamedTuple):
    """A line before it is wrapped; what does not fit goes on `hang` cells further in."""

    cell: Cell
    indent: int = 0
    hang: int = 0


def prose_lines(told: Iterable[Paragraph]) -> Iterator[Line]:
    """Paragraphs under their titles, with a blank line between them."""
    for number, paragraph in enumerate(told):
        if number:
            yield Line(Cell(""))
        yield Line(Cell(paragraph.title, paragraph.kind))
        yield from (Line(cell, indent=2, hang=2) for cell in paragraph.lines)


class Prose(ScrollView, can_focus=True):
    """Lines that keep their place when they change."""

    COMPONENT_CLASSES = KIND_CLASSES
    BINDINGS = [
        Binding("k", "scroll_up", "up", show=False),
        Binding("j", "scroll_down", "down", show=False),
        Binding("g", "scroll_home", "first", show=False),
        Binding("G", "scroll_end", "last", show=False),
    ]

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002  Textual's name
        super().__init__(id=id, classes=classes)
        self.lines: list[Line] = []
        self._rows: list[Cell] = []

    def show(self, lines: Iterable[Line]) -> None:
        """Show these lines."""
        new = list(lines)
        if new != self.lines:
            self.lines = new
            self._wrap()

    def copy(self) -> None:
        """Copy the whole to the clipboard, through the terminal."""
        self.app.copy_to_clipboard("\n".join(" " * at.indent + at.cell.text for at in self.lines))
        self.notify(f"{len(self.lines)} lines copied.")

    def _wrap(self) -> None:
        width = max(self.scrollable_content_region.width, 20)
        self._rows = [row for line in self.lines for row in wrapped(line, width)]
        self.virtual_size = Size(width, len(self._rows))
        self.refresh()

    def on_resize(self) -> None:
        """Wrap anew."""
        self._wrap()

    def render_line(self, y: int) -> Strip:
        """The row that the scroll position puts there."""
        width, index = self.size.width, y + self.scroll_offset.y
        if index >= len(self._rows):
            return Strip.blank(width, self.rich_style)
        cell = self._rows[index]
        style = self.rich_style + kind_style(self, cell.kind)
        return Strip([Segment(text.fit(cell.text, width), style)], width)


def wrapped(line: Line, width: int) -> list[Cell]:
    """A line in pieces of at most `width` cells, between words where that can be."""
    said, indent = line.cell.text, " " * line.indent
    if text.width_of(said) + line.indent <= width:
        return [Cell(indent + said, line.cell.kind)]
    if text.width_of(said) == len(said):
        pieces = textwrap.wrap(
            said,
            width,
            initial_indent=indent,
            subsequent_indent=" " * (line.indent + line.hang),
            break_on_hyphens=False,
        )
    else:
        pieces = [indent + piece for piece in text.chop(said, max(width - line.indent, 2))]
    return [Cell(piece, line.cell.kind) for piece in pieces]
