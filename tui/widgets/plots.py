"""Plots of a run's metrics, one above the other, as many as there is room for."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.segment import Segment
from textual.strip import Strip
from textual.widget import Widget

from tui import plot, text
from tui.widgets.paint import KIND_CLASSES, kind_style

_LINES = 5
FIRST = ("loss", "tokens_per_s", "grad_norm", "acceptance", "lr")
_NO_COURSE = {"t", "step", "seconds"}


class Plots(Widget):
    """Hidden until it is asked for; the loss on a logarithmic scale."""

    COMPONENT_CLASSES = KIND_CLASSES

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002  Textual's name
        super().__init__(id=id)
        self.display = False
        self.remark = "Asking for the metrics ..."
        self._metrics: Sequence[Mapping[str, Any]] = ()
        self._lines: list[tuple[str, str]] | None = None

    def show(self, metrics: Sequence[Mapping[str, Any]]) -> None:
        """Show these lines of the metrics file."""
        self._metrics = metrics
        self.say("" if metrics else "The run has written no metrics yet.")

    def say(self, remark: str) -> None:
        """Show this where there is no plot."""
        self.remark, self._lines = remark, None
        self.refresh()

    def on_resize(self) -> None:
        """Draw anew."""
        self._lines = None

    def _drawn(self) -> list[tuple[str, str]]:
        """Lines and their kinds: each metric's title and picture."""
        if not self._metrics:
            return [(self.remark, "muted")]
        found: list[tuple[str, str]] = []
        for name in self._names():
            if len(found) + 3 > self.size.height:
                break
            points = [
                (float(line["step"]), float(line[name]))
                for line in self._metrics
                if isinstance(line.get(name), int | float)
            ]
            height = min(_LINES, self.size.height - len(found) - 1)
            picture = plot.plot(
                text.harmless(name), points, self.size.width, height, log=name == "loss"
            )
            found += [(picture[0], "strong"), *((line, "busy") for line in picture[1:])]
        return found

    def _names(self) -> list[str]:
        """The metrics that have a course: the well-known ones first."""
        named = {
            key: None
            for line in self._metrics
            for key, value in line.items()
            if isinstance(value, int | float) and key not in _NO_COURSE
        }
        return [name for name in FIRST if name in named] + [n for n in named if n not in FIRST]

    def render_line(self, y: int) -> Strip:
        """A line of a plot."""
        if self._lines is None:
            self._lines = self._drawn()
        width = self.size.width
        if y >= len(self._lines):
            return Strip.blank(width, self.rich_style)
        shown, kind = self._lines[y]
        style = self.rich_style + kind_style(self, kind)
        return Strip([Segment(text.fit(shown, width), style)], width)
