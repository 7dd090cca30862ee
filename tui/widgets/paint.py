"""Cells as styled segments: a kind's colour comes from the stylesheet, by component class."""

from collections.abc import Iterable

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip
from textual.widget import Widget

from tui import text
from tui.cells import KINDS, Cell

LEAST_CUT = 8
"""A cell is left out rather than cut to less than this."""
KIND_CLASSES = {f"kind--{kind}" for kind in KINDS}


def kind_style(widget: Widget, kind: str) -> Style:
    """What the stylesheet says of a kind, to be laid over a line's own style."""
    return widget.get_component_rich_style(f"kind--{kind}", partial=True)


class CellLines(Widget):
    """Lines of cells; each line is cut where the widget ends, its cells two blanks apart."""

    COMPONENT_CLASSES = KIND_CLASSES

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002  Textual's name
        super().__init__(id=id, classes=classes)
        self._lines: list[tuple[Cell, ...]] = []
        self.display = False

    def show(self, lines: Iterable[Iterable[Cell]]) -> None:
        """Show these lines; the widget is hidden where there are none."""
        new = [tuple(line) for line in lines]
        if new == self._lines:
            return
        if len(new) != len(self._lines):
            self.styles.height = len(new) + self.gutter.height
        self.display = bool(new)
        self._lines = new
        self.refresh()

    @property
    def shown(self) -> str:
        """What it says, as text."""
        return "\n".join("  ".join(cell.text for cell in line) for line in self._lines)

    def render_line(self, y: int) -> Strip:
        """One line of the content."""
        width = self.size.width
        if y >= len(self._lines):
            return Strip.blank(width, self.rich_style)
        segments, used = [], 0
        for cell in self._lines[y]:
            gap = 2 if used else 0
            room = width - used - gap
            if room < min(text.width_of(cell.text), LEAST_CUT):
                break
            shown = cell.text if text.width_of(cell.text) <= room else text.fit(cell.text, room)
            segments.append(Segment(" " * gap, self.rich_style))
            segments.append(Segment(shown, self.rich_style + kind_style(self, cell.kind)))
            used += gap + text.width_of(shown)
        return Strip(segments).adjust_cell_length(width, self.rich_style)
