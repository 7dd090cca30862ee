"""Asks for a run's metrics again and again, and only for the steps that are not known yet."""

import math
from typing import Any

from tui.bridge import in_thread
from tui.source import Source, run_path


class MetricsReader:
    """The metrics of one run, as far as they were read."""

    def __init__(self, source: Source, run: str) -> None:
        self._source, self.run = source, run
        self.lines: list[dict[str, Any]] = []

    async def read_on(self) -> None:
        """Read the steps since the last one that is known; OrchError where nobody answers."""
        since = max((line["step"] for line in self.lines), default=-math.inf)
        query = {"since_step": int(since)} if self.lines else None
        path = run_path(self.run, "/metrics")
        found = await in_thread(lambda: self._source.ask("GET", path, query=query))
        new = [line for line in found["metrics"] if isinstance(line.get("step"), int)]
        self.lines += [line for line in new if line["step"] > since]
