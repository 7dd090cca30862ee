"""One run: how it stands, its GPUs, its incident, its course, its log as it grows."""

from collections.abc import Iterable
from pathlib import Path

from textual import on, work
from textual.containers import Vertical
from textual.widget import Widget

from orchestrator.api.messages import IncidentView, RunView
from orchestrator.core.errors import OrchError
from tui import gpus, keys, rows, story
from tui.cells import Cell
from tui.fleet import LIVE
from tui.messages import IncidentOpened
from tui.options import Options
from tui.reading import LEVELS
from tui.screens.log_reader import LogReader
from tui.screens.metrics_reader import MetricsReader
from tui.screens.page import HIGH_LINES, WIDE_CELLS, Page
from tui.source import Source
from tui.widgets.log_view import LogView
from tui.widgets.paint import CellLines
from tui.widgets.plots import Plots
from tui.widgets.prompt import Prompt

_LOOK_AGAIN_S = 0.5
_METRICS_AGAIN_S = 5.0


class RunScreen(Page):
    """A run, by its id; `at` is an attempt and a byte of its log to begin at."""

    PLACE = "run"
    CSS_PATH = "run.tcss"
    BINDINGS = keys.bindings("run")

    def __init__(
        self, run: str, *, options: Options, source: Source, at: tuple[int, int] | None = None
    ) -> None:
        super().__init__(options)
        self.run_id = run
        self._source = source
        self._at = at
        self._offered: tuple[str | None, str | None] | None = None
        self._metrics = MetricsReader(source, run)

    def parts(self) -> Iterable[Widget]:
        """Title and facts, then panels and log side by side or one above the other."""
        yield CellLines(id="title")
        yield CellLines(id="facts")
        with Vertical(id="body"):
            with Vertical(id="panels"):
                yield CellLines(id="incident")
                yield CellLines(id="gpus")
                yield Plots(id="plots")
            yield LogView(id="log")
        yield Prompt("search the whole log: words or a regular expression", id="search")
        yield Prompt("go to a time: 14:30, 14:30:05, or 10m for ten minutes ago", id="moment")

    def on_mount(self) -> None:
        """Begin in the log, and keep looking whether it has grown."""
        self.log_view = self.query_one(LogView)
        self.reader = LogReader(self, self.log_view, self._source, self.run_id)
        self.log_view.focus()
        # There is room for the plots beside the log; elsewhere they are asked for.
        size = self.app.size
        self.query_one(Plots).display = size.width >= WIDE_CELLS and size.height >= HIGH_LINES
        self._fetch_metrics()
        self.set_interval(_LOOK_AGAIN_S, self._look_again)
        self.set_interval(_METRICS_AGAIN_S, self._fetch_metrics)

    @property
    def run_view(self) -> RunView | None:
        """The run as it was seen last."""
        return self.sight.fleet.runs.get(self.run_id) if self.sight.fleet else None

    def _incident(self) -> IncidentView | None:
        fleet, run = self.sight.fleet, self.run_view
        return fleet.incident_of(run) if fleet and run else None

    def subject(self) -> dict[str, str | None]:
        """The run, its target and its incident."""
        run, incident = self.run_view, self._incident()
        return {
            "run": self.run_id,
            "target": run["target"] if run else None,
            "incident": incident["id"] if incident else None,
        }

    def why_not(self, key: keys.Key) -> str | None:
        """Ended runs cannot be stopped, and what has no incident has none to open."""
        run = self.run_view
        if key.id in {"stop", "attach"} and run is not None and run["state"] not in LIVE:
            return f"{self.run_id} has ended: {run['state']}."
        if key.id in {"incident", "finding", "ack"} and self._incident() is None:
            return "This run has no incident."
        return super().why_not(key)

    def paint(self) -> None:
        """Show the run as it is now."""
        run, sight = self.run_view, self.sight
        title = self.query_one("#title", CellLines)
        if run is None:
            title.show([[Cell(self.run_id, "strong"), Cell("not known here", "muted")]])
            return
        title.show([rows.run_title(run)])
        self._offer()
        facts = rows.run_facts(run, sight, width=self.size.width)
        self.query_one("#facts", CellLines).show([facts])
        incident = self._incident()
        told = story.incident_lines(incident, sight.now) if incident else []
        panel = self.query_one("#incident", CellLines)
        panel.set_class(bool(incident and incident["severity"] != "critical"), "-warning")
        panel.show([line] for line in told)
        self.query_one("#gpus", CellLines).show(self._gpus(run))
        view = self.log_view
        view.empty = "Nothing written yet." if run["state"] in LIVE else "It wrote nothing."
        if self._at is not None:
            attempt, offset = self._at
            view.reading.told(attempt, run["log_bytes"] if attempt == run["attempt"] else 0)
            view.reading.jump(offset)
            self._at = None
        elif view.reading.following or view.reading.window.attempt == run["attempt"]:
            view.reading.told(max(run["attempt"], 1), run["log_bytes"])
        self.reader.fetch()

    def _offer(self) -> None:
        """Make the footer anew where other keys do something now."""
        run, incident = self.run_view, self._incident()
        offered = (run["state"] if run else None, incident["state"] if incident else None)
        if offered != self._offered:
            self._offered = offered
            self.refresh_bindings()

    def _gpus(self, run: RunView) -> list[list[Cell]]:
        """The GPUs of the run's target: one a line, or two lines for all where there is no room."""
        fleet = self.sight.fleet
        target = fleet.targets.get(run["target"]) if fleet else None
        seen = target["gpus"] if target else []
        if seen and (self.has_class("-wide") or self.size.height - len(seen) >= 26):
            return [[cell for cell in gpus.gpu_line(gpu) if cell.text] for gpu in seen]
        return [[line] for line in gpus.gpu_brief(seen)] if seen else []

    # --- the log ---------------------------------------------------------------------------------

    @on(LogView.Moved)
    def _moved(self) -> None:
        self.reader.fetch()

    def _look_again(self) -> None:
        """Ask for more than is known of, while the run lives: its size may be told late."""
        run = self.run_view
        if run is not None and self.sight.connected and self.is_current:
            self.reader.fetch(look=run["state"] in LIVE)

    def action_search(self) -> None:
        """Ask what to search."""
        self.query_one("#search", Prompt).ask()

    @on(Prompt.Submitted, "#search")
    def _search(self, event: Prompt.Submitted) -> None:
        self.query_one(Prompt).display = False
        self.log_view.focus()
        self.reader.search(event.value)

    @on(Prompt.Dropped, "#search")
    def _search_dropped(self) -> None:
        self.log_view.focus()
        self.reader.search("")

    def action_search_on(self, way: int) -> None:
        """Go to the next match that way, or ask what to search."""
        if self.log_view.pattern is None:
            self.action_search()
        else:
            self.reader.search_on(way)

    def action_jump(self) -> None:
        """Ask which time to go to."""
        self.query_one("#moment", Prompt).ask()

    @on(Prompt.Dropped, "#moment")
    def _jump_dropped(self) -> None:
        self.log_view.focus()

    @on(Prompt.Submitted, "#moment")
    def _jump(self, event: Prompt.Submitted) -> None:
        self.query_one("#moment", Prompt).display = False
        self.log_view.focus()
        from orchestrator.core.parse.moment import parse_moment  # loads pydantic

        at = parse_moment(event.value, self._source.now())
        if at is None:
            self.notify("That is no time such as 14:30 or 10m.", severity="warning")
        else:
            self.reader.jump_to(at)

    def action_finding(self) -> None:
        """Go to the place in the log that the incident speaks of."""
        incident = self._incident()
        place = story.place_in_log(incident["finding"]) if incident else None
        if incident is None or place is None:
            self.notify("No finding of this run has a place in its log.")
            return
        reading = self.log_view.reading
        if incident["attempt"] != reading.window.attempt:
            reading.told(incident["attempt"], 0)
        reading.jump(place)
        self.log_view.changed(moved=True)

    def action_pause(self) -> None:
        """Stay here, or follow again."""
        reading = self.log_view.reading
        if reading.following:
            reading.pause()
        else:
            reading.follow()
        self.log_view.changed(moved=True)

    def action_wrap(self) -> None:
        """Wrap long lines, or not."""
        self.log_view.reading.wrapped = not self.log_view.reading.wrapped
        self.log_view.changed(moved=True)

    def action_rank(self) -> None:
        """The next rank, or all."""
        reading = self.log_view.reading
        order: list[int | None] = [None, *sorted(reading.window.ranks)]
        at = order.index(reading.rank) if reading.rank in order else 0
        reading.rank = order[(at + 1) % len(order)]
        if len(order) == 1:
            self.notify("No line here says which rank wrote it.")
        self.log_view.changed(moved=True)

    def action_level(self) -> None:
        """The next level, or all."""
        reading = self.log_view.reading
        reading.level = LEVELS[(LEVELS.index(reading.level) + 1) % len(LEVELS)]
        self.log_view.changed(moved=True)

    def action_copy(self) -> None:
        """Copy the lines on the screen."""
        lines = [piece.text for piece in self.log_view.rows]
        self.app.copy_to_clipboard("\n".join(lines))
        self.notify(f"{len(lines)} lines copied.")

    @work(group="save")
    async def action_save(self) -> None:
        """Save the whole log in the current folder."""
        try:
            path = await self.reader.save(Path.cwd())
        except FileExistsError as error:
            self.notify(f"{error.filename} is there already.", severity="warning")
        except (OSError, OrchError) as error:
            self.notify(str(error), title="The log was not saved", severity="error")
        else:
            self.notify(f"Saved as {path}.")

    # --- the rest --------------------------------------------------------------------------------

    def action_back(self) -> None:
        """End a search, leave what it marked, then go back."""
        view = self.log_view
        if self.reader.stop():
            return
        if view.pattern is not None:
            self.reader.search("")
            return
        super().action_back()

    def action_incident(self) -> None:
        """Open the run's incident."""
        incident = self._incident()
        if incident is not None:
            self.post_message(IncidentOpened(incident["id"]))

    def action_open(self) -> None:
        """Open what there is to open: the incident."""
        self.action_incident()

    def action_metrics(self) -> None:
        """Show or hide the plots."""
        plots = self.query_one(Plots)
        plots.display = not plots.display
        self._fetch_metrics()

    @work(group="metrics", exclusive=True)
    async def _fetch_metrics(self) -> None:
        """Ask for the steps since the last that are known, while the plots are shown."""
        plots = self.query_one(Plots)
        if not plots.display or not self.is_current:
            return
        try:
            await self._metrics.read_on()
        except OrchError as error:
            plots.say(str(error))
        else:
            plots.show(self._metrics.courses, logs=("loss",))
