"""Plots of courses, one above the other, as many as there is room for."""

from collections.abc import Sequence

from rich.segment import Segment
from textual.strip import Strip
from textual.widget import Widget

from tui import plot, text
from tui.cells import Cell
from tui.courses import GPU_COURSES, Courses
from tui.widgets.paint import KIND_CLASSES, kind_style

LEAST_LINES = 5


class Plots(Widget):
    """Shows what it is given, in that order; says so where there is nothing."""

    COMPONENT_CLASSES = KIND_CLASSES

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002  Textual's name
        super().__init__(id=id)
        self._remark = "Asking for the metrics ..."
        self._courses: Courses = {}
        self._logs: frozenset[str] = frozenset()
        self._beside: tuple[str, Courses] = ("", {})
        self._rows: list[list[Cell]] | None = None

    def show(
        self, courses: Courses, *, logs: Sequence[str] = (), beside: tuple[str, Courses] = ("", {})
    ) -> None:
        """Draw these; `logs`: those on a logarithmic axis; `beside`: another run's name and own."""
        self._courses, self._logs, self._beside = courses, frozenset(logs), beside
        self.say("" if courses else "The run has told of no number with a step yet.")

    def say(self, remark: str) -> None:
        """Show this where there is no plot."""
        self._remark, self._rows = remark, None
        self.refresh()

    def on_resize(self) -> None:
        """Draw anew."""
        self._rows = None

    def _drawn(self) -> list[list[Cell]]:
        """Each course's title and picture, all of the same height."""
        if not self._courses:
            return [[Cell(self._remark, "muted")]]
        most = max(self.size.height // (LEAST_LINES + 1), 1)
        shown = list(self._courses.items())[:most]
        found: list[list[Cell]] = []
        for number, (name, points) in enumerate(shown):
            height = (self.size.height - len(found)) // (len(shown) - number) - 1
            found += plot.plot(
                text.harmless(name),
                points,
                self.size.width,
                max(min(height, self.size.height - len(found) - 1), 1),
                across="minute" if name in GPU_COURSES else "step",
                log=name in self._logs,
                beside=(self._beside[0], self._beside[1].get(name, ())),
            )
        return found

    def render_line(self, y: int) -> Strip:
        """A line of a plot."""
        if self._rows is None:
            self._rows = self._drawn()
        width = self.size.width
        row = self._rows[y] if y < len(self._rows) else []
        segments = [
            Segment(cell.text, self.rich_style + kind_style(self, cell.kind)) for cell in row
        ]
        return Strip(segments).adjust_cell_length(width, self.rich_style)
