"""Cells, rows and columns: what a table or a line is made of, without Textual.

A Cell's `kind` is a word that the stylesheet colours; colour is never the only difference.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tui import text

KINDS = ("plain", "muted", "good", "busy", "warn", "bad", "strong")
LINKS: Mapping[str, tuple[str, str]] = {
    "connected": ("●", "good"),
    "degraded": ("◐", "warn"),
    "unreachable": ("○", "bad"),
}


@dataclass(frozen=True, slots=True)
class Cell:
    """A text and what kind of thing it says."""

    text: str
    kind: str = "plain"


@dataclass(frozen=True, slots=True)
class Column:
    """A column as wide as what is in it, up to `most`; a low `rank` stays on a narrow terminal."""

    name: str
    title: str
    most: int
    rank: int
    right: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table: its cells by column; a heading has one, and cannot be chosen."""

    key: str
    cells: Mapping[str, Cell]
    heading: bool = False


LAST_LEAST = 6
"""Cells that are enough for the beginning of the last column, which is cut rather than left out."""


def columns_for(
    columns: Sequence[Column], rows: Sequence[Row], width: int
) -> tuple[tuple[Column, int], ...]:
    """The columns that fit and their widths, the important ones first; the last takes the rest."""
    left, widths = width, dict[str, int]()
    for column in sorted(columns, key=lambda one: one.rank):
        wide = _natural(column, rows)
        if wide and column is columns[-1] and LAST_LEAST < left < wide + 1:
            wide = left - 1
        if wide and wide + 1 <= left:
            widths[column.name] = wide
            left -= wide + 1
    shown = [(column, widths[column.name]) for column in columns if column.name in widths]
    if shown and shown[-1][0] is columns[-1]:
        shown[-1] = (columns[-1], shown[-1][1] + max(left, 0))
    return tuple(shown)


def _natural(column: Column, rows: Sequence[Row]) -> int:
    """How wide a column wants to be; 0 where it has nothing to say."""
    told = (row.cells[column.name].text for row in rows if not row.heading)
    longest = max((text.width_of(one) for one in told), default=0)
    return min(max(longest, len(column.title)), column.most) if longest or not rows else 0
