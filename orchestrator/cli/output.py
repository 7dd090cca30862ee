"""How results look: tables, durations, JSON, and remote text that can do a terminal no harm.

Tables are plain columns on a terminal and in a pipe alike; rich is only for the live view.
"""

import json
import os
import re
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")
_LEAD = re.compile(r" *(?:\w+ {2,}|\d+(?:\.|:) )?")
"""What stands in front of a line's text: blanks, a word of a card, a number."""
LEAST_LAST = 20
"""The last column of a table is never cut to less than this."""

_STATE_COLOURS = {
    "running": "32",
    "finished": "32",
    "starting": "36",
    "backoff": "33",
    "degraded": "33",
    "warning": "33",
    "failed": "31",
    "lost": "31",
    "unreachable": "31",
    "critical": "31",
}


def now() -> float:
    """Unix seconds."""
    return time.time()  # noqa: TID251  orchestrator.clock loads asyncio, which status must not


def harmless(text: str, *, colour: bool = False) -> str:
    """Text from far away with nothing left that a terminal obeys, but colours where wanted."""
    if text.isascii() and text.isprintable():
        return text
    from orchestrator.core.parse.terminal import printable  # its patterns take their time

    if not colour or "\x1b" not in text:
        return printable(text)
    kept = _COLOUR.findall(text)
    plain = [printable(part) for part in _COLOUR.split(text)]
    painted = "".join(a + b for a, b in zip(plain, [*kept, ""], strict=True))
    return painted + "\x1b[0m" if kept else painted


def inner_lines_set_in(text: str) -> str:
    """A sentence that quotes lines of a target's: none of them can begin as one of orch's own."""
    return text.replace("\n", "\n  ")


def is_coloured(stream: TextIO) -> bool:
    """Whether colours are welcome there: a terminal, and no NO_COLOR."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def say(*lines: str) -> None:
    """Print lines of a result."""
    colour = is_coloured(sys.stdout)
    for line in lines:
        print(harmless(line, colour=colour), flush=True)


def note(line: str) -> None:
    """Print a line that is no result, for the person watching."""
    print(f"orch: {inner_lines_set_in(harmless(line))}", file=sys.stderr, flush=True)


def print_json(document: object) -> None:
    """Print one JSON document."""
    print(json.dumps(document, indent=2), flush=True)


def print_json_line(document: object) -> None:
    """Print one JSON document on one line."""
    print(json.dumps(document, separators=(",", ":")), flush=True)


def table(
    heads: Sequence[str], rows: Sequence[Sequence[str]], *, spare: Sequence[str] = ()
) -> list[str]:
    """Lines of columns; the last column is not padded.

    On a terminal states are coloured, and what is too wide for it goes: the `spare` columns one by
    one, the first first, then the end of the last column.
    """
    cells = [[harmless(cell).replace("\n", " ") for cell in row] for row in rows]
    widths = [max(len(row[at]) for row in [list(heads), *cells]) for at in range(len(heads))]
    colour = is_coloured(sys.stdout)
    if sys.stdout.isatty():
        import shutil  # loads five modules of archives

        room = shutil.get_terminal_size().columns - sum(widths[:-1]) - 2 * (len(heads) - 1)
        if spare and room < min(widths[-1], LEAST_LAST):
            at = list(heads).index(spare[0])
            fewer = [[*row[:at], *row[at + 1 :]] for row in (heads, *rows)]
            return table(fewer[0], fewer[1:], spare=spare[1:])
        widths[-1] = min(widths[-1], max(room, LEAST_LAST))
        cells = [[*row[:-1], _cut(row[-1], widths[-1])] for row in cells]
    lines = []
    for row in [list(heads), *cells]:
        padded = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        painted = [_paint(cell) if colour else cell for cell in padded]
        lines.append("  ".join(painted).rstrip())
    return lines


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 3]}..."


def wrapped(line: str) -> list[str]:
    """A line of prose as the terminal is wide, its further lines under its own text; else whole."""
    if not sys.stdout.isatty():
        return [line]
    import shutil
    import textwrap

    columns = max(shutil.get_terminal_size().columns, 40)
    lead = _LEAD.match(_COLOUR.sub("", line))
    hang = " " * (lead.end() if lead else 0)
    return textwrap.wrap(line, columns, subsequent_indent=hang, break_on_hyphens=False) or [""]


def _paint(cell: str) -> str:
    code = _STATE_COLOURS.get(cell.strip())
    return f"\x1b[{code}m{cell}\x1b[0m" if code else cell


def emphasis(text: str, code: str = "1") -> str:
    """The text in bold (or another SGR code) on a terminal."""
    return f"\x1b[{code}m{text}\x1b[0m" if is_coloured(sys.stdout) else text


def duration(seconds: float | None) -> str:
    """`3.2 s`, `4m 05s`, `2h 10m`, `3d 4h`; `-` where it is not known."""
    if seconds is None:
        return "-"
    seconds = max(seconds, 0.0)
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes}m {rest:02}s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h {minutes:02}m" if hours < 48 else f"{hours // 24}d {hours % 24}h"


def age(at: float | None, moment: float) -> str:
    """How long ago that was, in one short word."""
    if at is None:
        return "-"
    seconds = max(int(moment - at), 0)
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if seconds >= 2 * size:
            return f"{seconds // size}{unit} ago"
    return f"{seconds}s ago"


def size(amount: int | None) -> str:
    """Bytes in powers of 1024."""
    if amount is None:
        return "-"
    value = float(amount)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def number(value: float | None) -> str:
    """A metric: a step whole, a loss with four digits."""
    if value is None:
        return "-"
    return str(value) if isinstance(value, int) else f"{value:.4g}"


def run_name(run: Mapping[str, Any]) -> str:
    """`run 3`, as texts name a run; its job stands elsewhere."""
    return f"run {run['number']}"


def run_number(run_id: str) -> str:
    """`run 3` for the id dflash-3."""
    return f"run {run_id.rpartition('-')[2]}"
