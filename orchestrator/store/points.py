"""What the inventory's patterns find in a log, kept as the lines that a metrics file would have.

Owns their form and their place beside the run's own metrics; who reads them asks for no difference.
"""

import json
import math
from collections.abc import Iterable, Mapping

from orchestrator.store.logs import Logs

WRITTEN, FOUND = 0, 1
"""Where a run's metrics lie among its logs: its own file, and what patterns found."""


def point(step: int | None, values: Mapping[str, float], at: float) -> bytes:
    """One line of the run contract, at unix time `at`; empty where there is nothing over a step."""
    numbers = {
        name: value if math.isfinite(value) else None
        for name, value in values.items()
        if name not in {"step", "t"}
    }
    if step is None or not numbers:
        return b""
    return json.dumps({"t": at, "step": step, **numbers}).encode() + b"\n"


def keep(metrics: Logs, run: str, points: Iterable[bytes], at: float) -> None:
    """Lay points behind those there are. StoreError where the disk takes no more."""
    if lines := b"".join(points):
        metrics.append(run, FOUND, metrics.end(run, FOUND), lines, at)


def lines_of(metrics: Logs, run: str, size: int) -> list[bytes]:
    """The first lines of both, `size` bytes of each at most."""
    return [
        line
        for place in (WRITTEN, FOUND)
        for line in metrics.read(run, place, 0, size).splitlines()
    ]
