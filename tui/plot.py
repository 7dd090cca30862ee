"""Values over steps as a picture of braille dots; pure."""

import math
from collections.abc import Iterator, Sequence
from itertools import groupby

from tui import text
from tui.cells import Cell

_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""Bits of a braille character by row and column of its 4 x 2 dots."""
_LABEL = 8

Point = tuple[float, float]
Bits = list[list[int]]


def plot(
    title: str,
    points: Sequence[Point],
    width: int,
    height: int,
    *,
    across: str = "",
    log: bool = False,
    beside: tuple[str, Sequence[Point]] = ("", ()),
) -> list[list[Cell]]:
    """A title, then `height` lines of at most `width` cells with the scale at their left.

    Neighbouring values are joined, so that a spike stays visible however long the course is.
    `across` is what the values are over, such as `step`. `log`: a logarithmic scale, where all
    values are above 0.
    `beside`: the name and the course of another run, drawn where this one leaves room.
    """
    mine, other = _finite(points), _finite(beside[1])
    if not mine:
        return [[Cell(f"{title}: no values yet", "strong")]]
    log = log and all(y > 0 for _, y in (*mine, *other))
    head = f"{title} {text.figure(mine[-1][1])}{' (log)' if log else ''}"
    broken = len(points) - len(mine)
    head += f", {broken} not finite" if broken else ""
    told = [Cell(text.fit(head, width).rstrip(), "strong")]
    if other:
        told.append(Cell(f"  beside {beside[0]} {text.figure(other[-1][1])}", "warn"))
    if across:
        first, last = (text.short_number(x) for x in (mine[0][0], mine[-1][0]))
        told.append(Cell(f"  {across} {first} to {last}", "muted"))
    columns = max(width - _LABEL - 1, 1)
    mine, other = _thinned(mine, columns), _thinned(other, columns)
    frame = _Frame([*mine, *other], columns, height, log=log)
    return [told, *_lines(frame, frame.draw(mine), frame.draw(other))]


def _finite(points: Sequence[Point]) -> list[Point]:
    return [(x, y) for x, y in points if math.isfinite(y)]


def _thinned(points: list[Point], columns: int) -> list[Point]:
    """So many points that nothing is lost in the picture: lowest and highest of each piece."""
    size = len(points) // (columns * 2)
    if size < 2:
        return points
    found = []
    for at in range(0, len(points), size):
        piece = points[at : at + size]
        ends = {min(piece, key=_height), max(piece, key=_height)}
        found += sorted(ends)
    return found


def _height(point: Point) -> float:
    return point[1]


class _Frame:
    """What is drawn into: its scales, and how a course becomes dots in it."""

    def __init__(self, points: list[Point], columns: int, height: int, *, log: bool) -> None:
        self.columns, self.height, self._log = columns, height, log
        values = [self._scaled(y) for _, y in points]
        self._low, self._high = min(values), max(values)
        self._first = min(x for x, _ in points)
        self._span = max(max(x for x, _ in points) - self._first, 1e-9)

    def _scaled(self, y: float) -> float:
        return math.log10(y) if self._log else y

    def label(self, row: int) -> str:
        """The scale beside a row: at the top and at the bottom."""
        if row not in {0, self.height - 1}:
            return ""
        end = self._high if row == 0 else self._low
        return text.short_number(10**end if self._log else end)

    def draw(self, points: Sequence[Point]) -> Bits:
        """The bits of each cell."""
        bits = [[0] * self.columns for _ in range(self.height)]
        rise = (self._high - self._low) or 1.0
        before: tuple[int, int] | None = None
        for x, y in points:
            across = int((x - self._first) / self._span * (self.columns * 2 - 1))
            down = round((1 - (self._scaled(y) - self._low) / rise) * (self.height * 4 - 1))
            for column, row in _between(before or (across, down), (across, down)):
                bits[row // 4][column // 2] |= _DOTS[row % 4][column % 2]
            before = across, down
        return bits


def _between(start: tuple[int, int], end: tuple[int, int]) -> Iterator[tuple[int, int]]:
    """The dots from one place to the next, so that neighbours are seen to be neighbours."""
    (x, y), (right, to) = start, end
    steps = max(abs(right - x), abs(to - y), 1)
    for step in range(steps + 1):
        yield x + round((right - x) * step / steps), y + round((to - y) * step / steps)


_EVERY_OTHER = 0x95
"""A checkerboard of a cell's dots: a line that is drawn so is dotted."""


def _lines(frame: _Frame, mine: Bits, other: Bits) -> list[list[Cell]]:
    """The rows: the other run is dotted, and a cell that both touch is this run's."""
    lines = []
    for row in range(frame.height):
        dots = [
            (chr(0x2800 + (bits or behind)) if bits or behind else " ", "busy" if bits else "warn")
            for bits, behind in zip(
                mine[row], (bits & _EVERY_OTHER for bits in other[row]), strict=True
            )
        ]
        cells = [
            Cell("".join(dot for dot, _ in group), kind)
            for kind, group in groupby(dots, key=lambda dot: "busy" if dot[0] == " " else dot[1])
        ]
        lines.append([Cell(f"{frame.label(row):>{_LABEL}} ", "muted"), *cells])
    return lines
