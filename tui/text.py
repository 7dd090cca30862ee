"""Times, sizes, numbers and small pictures as text, and remote text that can do no harm.

Pure, and knows nothing of runs. Everything that came from a target goes through `harmless` before
it is shown.
"""

import math
from collections.abc import Sequence

from rich.cells import cell_len, chop_cells, set_cell_size

from orchestrator.core.parse.terminal import one_line

BLOCKS = "▁▂▃▄▅▆▇█"
UNKNOWN = "-"


def harmless(text: str) -> str:
    """The text on one line, with nothing left that moves a cursor, colours, or turns it around."""
    return one_line(text)


def width_of(text: str) -> int:
    """How many cells a text takes."""
    return len(text) if text.isascii() else cell_len(text)


def fit(text: str, width: int, *, right: bool = False) -> str:
    """The text in exactly `width` cells, cut with an ellipsis where it is longer."""
    length = width_of(text)
    if length > width:
        return set_cell_size(text, max(width - 1, 0)) + "…" if width else ""
    blank = " " * (width - length)
    return blank + text if right else text + blank


def chop(text: str, width: int) -> list[str]:
    """The text in pieces of at most `width` cells; one empty piece where there is none."""
    if text.isascii():
        return [text[at : at + width] for at in range(0, len(text), width)] or [""]
    return chop_cells(text, width) or [""]


def age(seconds: float | None) -> str:
    """`3s`, `4m`, `2h`, `3d`: how long ago, in one short word."""
    if seconds is None:
        return UNKNOWN
    whole = max(int(seconds), 0)
    for unit_s, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if whole >= 2 * unit_s:
            return f"{whole // unit_s}{unit}"
    return f"{whole}s"


def duration(seconds: float | None) -> str:
    """`3.2s`, `4m05s`, `2h10m`, `3d4h`."""
    if seconds is None:
        return UNKNOWN
    seconds = max(seconds, 0.0)
    if seconds < 60:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes}m{rest:02}s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02}m" if hours < 48 else f"{hours // 24}d{hours % 24}h"


def size(amount: float | None) -> str:
    """Bytes in powers of 1024: `512 B`, `1.5 MiB`."""
    if amount is None:
        return UNKNOWN
    value = float(amount)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def number(value: object) -> str:
    """A metric: whole numbers whole, others with four digits."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return UNKNOWN
    return f"{value:,}".replace(",", " ") if isinstance(value, int) else f"{value:.4g}"


def figure(value: float) -> str:
    """A value of a metric: `2.694`, `10.3k`, `1.89e-05`."""
    return short_number(value) if abs(value) >= 1e4 else f"{value:.4g}"


def short_number(value: float) -> str:
    """A speed in five characters or so: `1.5`, `812`, `10.5k`, `1.2M`."""
    for unit_size, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= unit_size:
            return f"{value / (1e3 if unit == 'k' else unit_size):.1f}{unit}"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def block(share: float | None) -> str:
    """One character for a share from 0 to 1; `·` for nothing, `?` where it is not known."""
    if share is None:
        return "?"
    if share < 0.005:
        return "·"
    # Never the full block: neighbours would run into one another.
    return BLOCKS[min(int(share * (len(BLOCKS) - 1)), len(BLOCKS) - 2)]


def bar(share: float | None, width: int) -> str:
    """A bar of `width` cells."""
    filled = round(min(max(share or 0.0, 0.0), 1.0) * width)
    return "━" * filled + "╌" * (width - filled)


def sparkline(values: Sequence[float | None], width: int) -> str:
    """The newest `width` values as blocks, lowest to highest; `!` where one is not finite."""
    shown = values[-width:]
    finite = [value for value in shown if value is not None and math.isfinite(value)]
    if len(shown) < 2:
        return ""
    if not finite:
        return "!" * len(shown)
    low, high = min(finite), max(finite)
    span = (high - low) or 1.0

    def one(value: float | None) -> str:
        if value is None or not math.isfinite(value):
            return "!"
        return BLOCKS[min(int((value - low) / span * len(BLOCKS)), len(BLOCKS) - 1)]

    return "".join(map(one, shown))
