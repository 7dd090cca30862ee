"""A table that updates in place: rows by key, so that cursor and scroll survive a refresh.

Textual's DataTable cannot leave columns out by width or put headings between rows, and repaints
all of itself when a cell changes; this one repaints the lines that changed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.segment import Segment
from textual import events
from textual.binding import Binding
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from tui import text
from tui.cells import Cell, Column, Row, columns_for
from tui.widgets.paint import KIND_CLASSES, kind_style

HEAD_LINES = 1
MARKER = "›"


class Table(ScrollView, can_focus=True):
    """Rows under a fixed head; Enter or a second click chooses the one under the cursor."""

    COMPONENT_CLASSES = KIND_CLASSES | {"table--head", "table--cursor", "table--group"}
    BINDINGS = [
        Binding("up,k", "move(-1)", "up", show=False),
        Binding("down,j", "move(1)", "down", show=False),
        Binding("pageup", "page(-1)", "page up", show=False),
        Binding("pagedown", "page(1)", "page down", show=False),
        Binding("home", "end(-1)", "first", show=False),
        Binding("end,G", "end(1)", "last", show=False),
    ]

    @dataclass
    class Chosen(Message):
        """Somebody pressed Enter on a row, or clicked it when the cursor was on it."""

        table: "Table"
        key: str

        @property
        def control(self) -> "Table":
            """The table, for `@on` with a selector."""
            return self.table

    def __init__(self, columns: Sequence[Column], *, id: str | None = None) -> None:  # noqa: A002  Textual's name
        super().__init__(id=id)
        self._columns = tuple(columns)
        self._shown: tuple[tuple[Column, int], ...] = ()
        self.rows: list[Row] = []
        self._cursor: str | None = None
        self._empty: tuple[Cell, ...] = ()

    # --- what it shows ---------------------------------------------------------------------------

    def show(self, rows: Sequence[Row], *, empty: Sequence[str] = ()) -> None:
        """Show these rows, or the lines of `empty` where there are none."""
        old, self.rows = self.rows, list(rows)
        at = self._index()
        self._empty = tuple(Cell(line, "muted") for line in empty)
        if at is None:
            self._cursor = next((row.key for row in self.rows if not row.heading), None)
        shown = columns_for(self._columns, self.rows, self._room())
        if len(old) != len(self.rows) or not self.rows or shown != self._shown:
            self._shown = shown
            self.virtual_size = Size(self.size.width, max(len(self.rows), len(empty)) + HEAD_LINES)
            self.refresh()
            return
        for index, (before, after) in enumerate(zip(old, self.rows, strict=True)):
            if before != after:
                self._refresh_row(index)

    def _room(self) -> int:
        """Cells for columns: all but the marker, and a scrollbar where there may be one."""
        return self.size.width - 1

    @property
    def cursor(self) -> str | None:
        """Key of the row under the cursor."""
        return self._cursor

    def point_at(self, key: str) -> None:
        """Move the cursor to a row, and the row into sight."""
        before = self._index()
        if before is not None:
            self._refresh_row(before)
        self._cursor = key
        at = self._index()
        if at is None:
            return
        self._refresh_row(at)
        height = self.size.height - HEAD_LINES
        top = self.scroll_offset.y
        first = at - 1 if at and self.rows[at - 1].heading else at
        if first < top:
            self.scroll_to(y=first, animate=False)
        elif height > 0 and at >= top + height:
            self.scroll_to(y=at - height + 1, animate=False)

    def _index(self) -> int | None:
        key = self._cursor
        return next((at for at, row in enumerate(self.rows) if row.key == key), None)

    def _refresh_row(self, index: int) -> None:
        y = index - self.scroll_offset.y + HEAD_LINES
        if HEAD_LINES <= y < self.size.height:
            self.refresh(Region(0, y, self.size.width, 1))

    # --- painting --------------------------------------------------------------------------------

    def render_line(self, y: int) -> Strip:
        """The head, or the row that the scroll position puts there."""
        width = self.size.width
        if y < HEAD_LINES:
            return self._head(width)
        index = y - HEAD_LINES + self.scroll_offset.y
        if not self.rows:
            lines = self._empty
            said = lines[index] if index < len(lines) else Cell("")
            style = self.rich_style + kind_style(self, said.kind)
            return Strip([Segment(text.fit(f"  {said.text}", width), style)], width)
        if index >= len(self.rows):
            return Strip.blank(width, self.rich_style)
        return self._row(self.rows[index], width)

    def _head(self, width: int) -> Strip:
        style = self.get_component_rich_style("table--head")
        titles = (text.fit(one.title, wide, right=one.right) for one, wide in self._shown)
        return Strip([Segment(text.fit(" " + " ".join(titles), width), style)], width)

    def _row(self, row: Row, width: int) -> Strip:
        if row.heading:
            style = self.get_component_rich_style("table--group")
            return Strip([Segment(text.fit(f" {row.cells['heading'].text}", width), style)], width)
        chosen = row.key == self._cursor
        base = self.rich_style
        if chosen and self.has_focus:
            base = self.get_component_rich_style("table--cursor")
        segments = [Segment(MARKER if chosen and self.has_focus else " ", base)]
        for column, wide in self._shown:
            cell = row.cells[column.name]
            shown = text.fit(cell.text, wide, right=column.right) + " "
            segments.append(Segment(shown, base + kind_style(self, cell.kind)))
        return Strip(segments).adjust_cell_length(width, base)

    # --- moving about ----------------------------------------------------------------------------

    def _step(self, by: int) -> None:
        choices = [row.key for row in self.rows if not row.heading]
        if not choices:
            return
        at = choices.index(self._cursor) if self._cursor in choices else 0
        self.point_at(choices[min(max(at + by, 0), len(choices) - 1)])

    def action_move(self, by: int) -> None:
        """Move the cursor by rows."""
        self._step(by)

    def action_page(self, by: int) -> None:
        """Move the cursor by screenfuls."""
        self._step(by * max(self.size.height - HEAD_LINES - 1, 1))

    def action_end(self, by: int) -> None:
        """Move the cursor to the first or last row."""
        self._step(by * max(len(self.rows), 1))

    def action_choose(self) -> None:
        """Choose the row under the cursor."""
        if self._cursor is not None and self._index() is not None:
            self.post_message(self.Chosen(self, self._cursor))

    def on_click(self, event: events.Click) -> None:
        """Point at the row that was clicked; choose it where the cursor was there already."""
        place = event.get_content_offset(self)
        if place is None or place.y < HEAD_LINES:
            return
        index = place.y - HEAD_LINES + self.scroll_offset.y
        if index < len(self.rows) and not self.rows[index].heading:
            if self.rows[index].key == self._cursor:
                self.action_choose()
            self.point_at(self.rows[index].key)

    def on_resize(self, event: events.Resize) -> None:
        """Choose the columns anew."""
        self._shown = columns_for(self._columns, self.rows, self._room())
        self.virtual_size = Size(event.size.width, max(len(self.rows), 1) + HEAD_LINES)
        if self._cursor is not None:
            self.call_after_refresh(self.point_at, self._cursor)

    def on_focus(self) -> None:
        """The cursor looks otherwise."""
        self.refresh()

    def on_blur(self) -> None:
        """The cursor looks otherwise."""
        self.refresh()
