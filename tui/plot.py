"""Values over steps as a picture of braille dots; pure."""

import math
from collections.abc import Sequence

from tui import text

_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""Bits of a braille character by row and column of its 4 x 2 dots."""
_LABEL = 8

Point = tuple[float, float]


def plot(
    title: str, points: Sequence[Point], width: int, height: int, *, log: bool = False
) -> list[str]:
    """A title, then `height` lines of at most `width` cells with the scale at their left.

    Each column of dots shows the lowest and highest value of its steps, so that a spike stays
    visible however long the course is. `log`: a logarithmic scale, where all values are above 0.
    """
    finite = [(x, y) for x, y in points if math.isfinite(y)]
    broken = len(points) - len(finite)
    if not finite:
        return [f"{title}: no values yet"]
    log = log and all(y > 0 for _, y in finite)
    scaled = [(x, math.log10(y)) for x, y in finite] if log else finite
    low, high = min(y for _, y in scaled), max(y for _, y in scaled)
    columns = max(width - _LABEL - 1, 1)
    canvas = _draw(scaled, columns, height, low, (high - low) or 1.0)
    ends = {0: high, height - 1: low} if height > 1 else {0: high}
    labels = {row: text.short_number(10**end if log else end) for row, end in ends.items()}
    head = f"{title} {finite[-1][1]:.4g}{' (log)' if log else ''}"
    head += f", {broken} not finite" if broken else ""
    rows = [f"{labels.get(row, ''):>{_LABEL}} {line}" for row, line in enumerate(canvas)]
    return [text.fit(head, width).rstrip(), *rows]


def _draw(points: Sequence[Point], columns: int, height: int, low: float, span: float) -> list[str]:
    bits = [[0] * columns for _ in range(height)]
    first, last = points[0][0], max(points[-1][0], points[0][0] + 1)
    ranges: dict[int, tuple[int, int]] = {}
    for x, y in points:
        across = int((x - first) / (last - first) * (columns * 2 - 1))
        down = round((1 - (y - low) / span) * (height * 4 - 1))
        top, bottom = ranges.get(across, (down, down))
        ranges[across] = (min(top, down), max(bottom, down))
    for across, (top, bottom) in ranges.items():
        if not 0 <= across < columns * 2:
            continue
        for down in range(top, bottom + 1):
            bits[down // 4][across // 2] |= _DOTS[down % 4][across % 2]
    return ["".join(chr(0x2800 + cell) if cell else " " for cell in row) for row in bits]
