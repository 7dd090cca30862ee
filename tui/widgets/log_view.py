"""Paints a log that is being read, and takes the keys that move the eye.

What is read, and which range is wanted next, is `reading`'s; who fetches it, the screen's.
"""

from dataclasses import dataclass

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from orchestrator.core.patterns import Pattern
from tui import text
from tui.reading import Piece, Reading
from tui.widgets.paint import KIND_CLASSES, kind_style

_LEVEL_KINDS = {"E": "bad", "C": "bad", "W": "warn", "D": "muted"}
_WHEEL_LINES = 3
_SIDEWAYS_CELLS = 16


class LogView(Widget, can_focus=True):
    """A log on the screen, under a line that says where in it one is."""

    COMPONENT_CLASSES = KIND_CLASSES | {"log--match", "log--here", "log--title"}
    BINDINGS = [
        Binding("up,k", "line(-1)", "up", show=False),
        Binding("down,j", "line(1)", "down", show=False),
        Binding("pageup", "page(-1)", "page up", show=False),
        Binding("pagedown", "page(1)", "page down", show=False),
        Binding("left", "sideways(-1)", "left", show=False),
        Binding("right", "sideways(1)", "right", show=False),
        Binding("home,g", "first", "beginning", show=False),
        Binding("end,G", "follow", "end", show=False),
    ]

    @dataclass
    class Moved(Message):
        """The eye is elsewhere: other ranges may be wanted."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002  Textual's name
        super().__init__(id=id)
        self.reading = Reading()
        self.pattern: Pattern | None = None
        self.remark = ""
        """Shown in the title: what a search found."""
        self.empty = ""
        """Shown where there are no lines."""
        self._x = 0
        self._rows: list[Piece] | None = None

    def changed(self, *, moved: bool = False) -> None:
        """Paint again; `moved`: something else may be wanted."""
        self._rows = None
        self.refresh()
        if moved:
            self.post_message(self.Moved())

    @property
    def rows(self) -> list[Piece]:
        """The lines of the screen, made once for each change."""
        if self._rows is None:
            self.reading.width = max(self.size.width, 1)
            self.reading.height = max(self.size.height - 1, 1)
            self._rows = self.reading.rows()
        return self._rows

    # --- painting --------------------------------------------------------------------------------

    def title(self) -> str:
        """Where in the log one is, and what is left out."""
        reading, window = self.reading, self.reading.window
        parts = [f"log of attempt {window.attempt}" if window.attempt else "log"]
        parts += [self.remark] if self.remark else []  # never what a narrow log cuts off
        parts.append("following" if reading.following else "paused, End follows")
        if window.size:
            share = 100 if reading.following else int(100 * reading.place() / window.size)
            parts.append(f"{share}% of {text.size(window.size)}")
        parts += [f"rank {reading.rank}"] if reading.rank is not None else []
        parts += (
            [{"W": "warnings and errors", "E": "errors"}[reading.level]] if reading.level else []
        )
        parts += (
            []
            if reading.wrapped
            else [f"not wrapped{f', from column {self._x}' if self._x else ''}"]
        )
        return "  ".join(parts)

    def render_line(self, y: int) -> Strip:
        """The title, or a line of the log."""
        width = self.size.width
        if y == 0:
            style = self.get_component_rich_style("log--title")
            return Strip([Segment(text.fit(f" {self.title()}", width), style)], width)
        rows = self.rows
        if y > len(rows):
            filtered = self.reading.level and self.reading.window.lines
            said = "No line of this level." if filtered else self.empty
            said = said if y == 1 and not rows else ""
            style = self.rich_style + kind_style(self, "muted")
            return Strip([Segment(text.fit(f" {said}", width), style)], width)
        return self._line(rows[y - 1], width)

    def _line(self, piece: Piece, width: int) -> Strip:
        base = self.rich_style
        marked = self.reading.marked
        if marked is not None and piece.line.offset <= marked < piece.line.end:
            base = self.get_component_rich_style("log--here")
        kind = _LEVEL_KINDS.get(piece.line.level)
        if kind:
            base += kind_style(self, kind)
        strip = Strip(list(self._segments(piece.text, base)))
        if not self.reading.wrapped:
            strip = strip.crop(self._x, self._x + width)
        return strip.adjust_cell_length(width, base)

    def _segments(self, shown: str, base: Style) -> list[Segment]:
        if self.pattern is None:
            return [Segment(shown, base)]
        match_style = self.get_component_rich_style("log--match")
        segments, at = [], 0
        for match in self.pattern.finditer(shown):
            if match.end() > match.start():
                segments.append(Segment(shown[at : match.start()], base))
                segments.append(Segment(match[0], match_style))
                at = match.end()
        return [*segments, Segment(shown[at:], base)]

    # --- moving about ----------------------------------------------------------------------------

    def action_line(self, by: int) -> None:
        """Scroll by lines."""
        self.reading.scroll(by)
        self.changed(moved=True)

    def action_page(self, by: int) -> None:
        """Scroll by screenfuls."""
        self.action_line(by * max(self.reading.height - 1, 1))

    def action_sideways(self, by: int) -> None:
        """Look further left or right, where lines are not wrapped."""
        if not self.reading.wrapped:
            self._x = max(self._x + by * _SIDEWAYS_CELLS, 0)
            self.changed()

    def action_first(self) -> None:
        """Go to the beginning."""
        self.reading.first()
        self.changed(moved=True)

    def action_follow(self) -> None:
        """Go to the end, and along with it."""
        self.reading.follow()
        self.changed(moved=True)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Scroll as the wheel turns."""
        event.stop()
        self.action_line(-_WHEEL_LINES)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Scroll as the wheel turns."""
        event.stop()
        self.action_line(_WHEEL_LINES)

    def on_resize(self) -> None:
        """Lay the lines out anew."""
        self.changed(moved=True)
