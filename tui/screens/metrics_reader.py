"""Asks for a run's metrics again and again, and only for the steps that are not known yet."""

from tui import courses
from tui.bridge import in_thread
from tui.plot import Point
from tui.source import Source, run_path


class MetricsReader:
    """The metrics of one run, as far as they were read."""

    def __init__(self, source: Source, run: str) -> None:
        self._source, self.run = source, run
        self._step: int | None = None
        self._courses: dict[str, list[Point]] = {}

    @property
    def courses(self) -> courses.Courses:
        """Every metric over the steps, the well-known ones first."""
        return courses.ordered(self._courses)

    async def read_on(self) -> None:
        """Read the steps since the last one that is known; OrchError where nobody answers."""
        since = self._step
        query = None if since is None else {"since_step": since}
        path = run_path(self.run, "/metrics")
        found = await in_thread(lambda: self._source.ask("GET", path, query=query))
        lines = [line for line in found["metrics"] if isinstance(line.get("step"), int)]
        new = [line for line in lines if since is None or line["step"] > since]
        courses.note(self._courses, new)
        self._step = max((line["step"] for line in new), default=since)
