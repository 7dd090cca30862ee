"""A run's metrics and GPUs as large plots: which of them, on which axis, beside which other run."""

from collections.abc import Iterable

from textual import on, work
from textual.containers import Horizontal
from textual.widget import Widget

from orchestrator.core.errors import OrchError
from tui import courses, keys, rows, text
from tui.bridge import in_thread
from tui.cells import Cell, Column, Row
from tui.options import Options
from tui.screens.metrics_reader import MetricsReader
from tui.screens.page import Page
from tui.source import Source, run_path
from tui.widgets.paint import CellLines
from tui.widgets.plots import Plots
from tui.widgets.table import Table

_AGAIN_S, _GPUS_AGAIN_S = 5.0, 30.0
_AT_FIRST = 2
_COLUMNS = (
    Column("shown", "", 1, 0),
    Column("name", "METRIC", 18, 0),
    Column("now", "NOW", 7, 0, right=True),
)


class PlotsScreen(Page):
    """Plots of a run; the first metrics are shown until others are chosen."""

    PLACE = "plots"
    CSS_PATH = "plots.tcss"
    BINDINGS = keys.bindings("plots")

    def __init__(self, run: str, *, options: Options, source: Source) -> None:
        super().__init__(options)
        self.run_id = run
        self._source = source
        self._metrics = MetricsReader(source, run)
        self._other: MetricsReader | None = None
        self._gpus: courses.Courses = {}
        self._gpus_at: float | None = None
        """When the source was asked for them last."""
        self._chosen: list[str] | None = None
        self._logs = {"loss"}

    def parts(self) -> Iterable[Widget]:
        """Which run, then the metrics to choose from beside the plots."""
        yield CellLines(id="title")
        with Horizontal(id="body"):
            yield Table(_COLUMNS, id="metrics")
            yield Plots(id="plots")

    def on_mount(self) -> None:
        """Ask, and go on asking."""
        self.query_one(Table).focus()
        self._fetch()
        self.set_interval(_AGAIN_S, self._fetch)

    def paint(self) -> None:
        """The run's title; plots change with what was asked for."""
        run = self.sight.fleet.runs.get(self.run_id) if self.sight.fleet else None
        title = rows.run_title(run) if run else [Cell(self.run_id, "strong")]
        self.query_one("#title", CellLines).show([title])

    @work(group="metrics", exclusive=True)
    async def _fetch(self) -> None:
        plots = self.query_one(Plots)
        if not self.is_current:
            return
        try:
            await self._metrics.read_on()
            if self._other is not None:
                await self._other.read_on()
            await self._read_gpus()
        except OrchError as error:
            plots.say(text.harmless(str(error)))
            return
        self._draw()

    async def _read_gpus(self) -> None:
        """Ask for the GPUs' history, which is megabytes: seldom, and only while it is drawn."""
        now, shown = self._source.now(), set(self._chosen or ()) & set(courses.GPU_COURSES)
        if self._gpus_at is not None and (not shown or now - self._gpus_at < _GPUS_AGAIN_S):
            return
        self._gpus_at = now
        path = run_path(self.run_id, "/gpus")
        history = await in_thread(lambda: self._source.ask("GET", path))
        self._gpus = courses.of_gpus(history["samples"])

    def _draw(self) -> None:
        every = {**self._metrics.courses, **self._gpus}
        chosen = list(every)[:_AT_FIRST] if self._chosen is None else self._chosen
        table = self.query_one(Table)
        table.show(
            [
                Row(
                    name,
                    {
                        "shown": Cell("*" if name in chosen else " ", "good"),
                        "name": Cell(text.harmless(name), "strong" if name in chosen else "plain"),
                        "now": Cell(text.short_number(points[-1][1]), "muted"),
                    },
                )
                for name, points in every.items()
            ],
            empty=["nothing yet"],
        )
        other = (self._other.run, self._other.courses) if self._other else ("", {})
        shown = {name: every[name] for name in every if name in chosen}
        self.query_one(Plots).show(shown, logs=sorted(self._logs), beside=other)

    @on(Table.Chosen)
    def action_open(self) -> None:
        """Show the metric under the cursor, or leave it out."""
        every = [row.key for row in self.query_one(Table).rows]
        chosen = every[:_AT_FIRST] if self._chosen is None else self._chosen
        name = self.query_one(Table).cursor
        if name is not None:
            self._chosen = [one for one in every if (one in chosen) != (one == name)]
        self._draw()

    def action_log_axis(self) -> None:
        """A logarithmic axis for the metric under the cursor, or a plain one."""
        name = self.query_one(Table).cursor
        if name is not None:
            self._logs ^= {name}
        self._draw()

    @work(group="acts")
    async def action_compare(self) -> None:
        """Ask which run to draw beside this one."""
        from tui.screens.windows import Choose

        fleet = self.sight.fleet
        job = fleet.runs[self.run_id]["job"] if fleet and self.run_id in fleet.runs else None
        alike = [run for run in fleet.runs.values() if run["job"] == job] if fleet else []
        alike.sort(key=lambda run: -run["created_at"])
        names = {
            f"{run['id']}  {run['state']}  {text.harmless(run['why'])}": run["id"]
            for run in alike
            if run["id"] != self.run_id
        }
        if not names:
            self.notify("The job has no other run.")
            return
        alone = "none: this run alone"
        chosen = await self.app.push_screen_wait(
            Choose("Beside which run?", [*names, *([alone] if self._other else [])])
        )
        if chosen is not None:
            self._other = MetricsReader(self._source, names[chosen]) if chosen in names else None
            self._fetch()
