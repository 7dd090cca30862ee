"""Silences as rows: which alerts are kept back, for how long yet, and why.

Pure. Ending one is small_acts' to do.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tui import text
from tui.cells import Cell, Column, Row

COLUMNS = (
    Column("silence", "SILENCE", 12, 0),
    Column("match", "KEEPS BACK", 48, 0),
    Column("lasts", "LASTS", 8, 1),
    Column("since", "SINCE", 8, 2),
    Column("why", "WHY", 60, 3),
)
EMPTY = ("", "No alert is kept back.", "Z on a run or an incident keeps alerts like its own back.")
INVENTORY = "inventory"


def silence_rows(silences: Sequence[Mapping[str, Any]], now: float) -> list[Row]:
    """A row for each, in the daemon's order: the inventory's own, which no key ends, first."""
    return [
        Row(str(one["id"] or f"{INVENTORY} {number}"), _cells(one, now))
        for number, one in enumerate(silences)
    ]


def _cells(silence: Mapping[str, Any], now: float) -> dict[str, Cell]:
    until, since = silence["until"], silence["created_at"]
    return {
        "silence": Cell(str(silence["id"] or INVENTORY), "strong" if silence["id"] else "muted"),
        "match": Cell(match_text(silence)),
        "lasts": Cell("for good" if until is None else text.duration(until - now), "warn"),
        "since": Cell("" if since is None else text.age(now - since), "muted"),
        "why": Cell(text.harmless(silence["why"]), "muted"),
    }


def match_text(silence: Mapping[str, Any]) -> str:
    """`job=dflash severity=warning`, or `every alert`."""
    labels = [f"{name}={value}" for name, value in silence["match"].items()]
    return text.harmless(" ".join(labels) or "every alert")
