"""One run: how it stands, its GPUs, its incident, its log as it grows."""

from collections.abc import Iterable

from textual import on, work
from textual.containers import Vertical
from textual.widget import Widget

from orchestrator.core.errors import OrchError
from tui import keys, rows
from tui.bridge import in_thread
from tui.fleet import LIVE
from tui.reading import Want
from tui.screens.page import Page
from tui.source import Source
from tui.widgets.log_view import LogView
from tui.widgets.paint import CellLines

_LOOK_AGAIN_S = 0.5
_LOW_GPU_LINES = 2


class RunScreen(Page):
    """A run, by its id."""

    PLACE = "run"
    CSS_PATH = "run.tcss"
    BINDINGS = keys.bindings("run")

    def __init__(self, run: str, *, name: str, source: Source) -> None:
        super().__init__(name)
        self.run_id = run
        self._source = source
        self._fetching = False

    def parts(self) -> Iterable[Widget]:
        """Title and facts, then panels and log side by side or one above the other."""
        yield CellLines(id="title")
        yield CellLines(id="facts")
        with Vertical(id="body"):
            with Vertical(id="panels"):
                yield CellLines(id="incident")
                yield CellLines(id="gpus")
            yield LogView(id="log")

    def on_mount(self) -> None:
        """Begin in the log, and keep looking whether it has grown."""
        self.query_one(LogView).focus()
        self.set_interval(_LOOK_AGAIN_S, self._look_again)

    def paint(self) -> None:
        """Show the run as it is now."""
        sight = self.sight
        run = sight.fleet.runs.get(self.run_id) if sight.fleet else None
        if run is None or sight.fleet is None:
            lines = [[rows.Cell(self.run_id, "strong"), rows.Cell("not known here", "muted")]]
            self.query_one("#title", CellLines).show(lines)
            return
        self.query_one("#title", CellLines).show([rows.run_title(run)])
        facts = rows.run_facts(run, sight, width=self.size.width)
        self.query_one("#facts", CellLines).show([facts])
        incident = sight.fleet.incident_of(run)
        told = rows.incident_lines(incident, sight.now) if incident else []
        self.query_one("#incident", CellLines).show([line] for line in told)
        self.query_one("#gpus", CellLines).show([line] for line in self._gpus())
        log = self.query_one(LogView)
        log.empty = "Nothing written yet." if run["state"] in LIVE else "It wrote nothing."
        log.reading.told(max(run["attempt"], 1), run["log_bytes"])
        self._fetch()

    def _gpus(self) -> list[rows.Cell]:
        """The GPUs of the run's target: one a line, or two lines for all where there is no room."""
        fleet = self.sight.fleet
        run = fleet.runs.get(self.run_id) if fleet else None
        target = fleet.targets.get(run["target"]) if fleet and run else None
        if target is None or not target["gpus"]:
            return []
        panel = self.query_one("#panels")
        gpus = target["gpus"]
        if self.has_class("-wide") or self.size.height - len(gpus) >= 26:
            return [rows.gpu_line(gpu, max(panel.size.width - 2, 20)) for gpu in gpus]
        return rows.gpu_brief(gpus)

    # --- the log ---------------------------------------------------------------------------------

    @on(LogView.Moved)
    def _fetch(self) -> None:
        if not self._fetching:
            self._fetch_wanted()

    def _look_again(self) -> None:
        """Ask for more than is known of, while the run lives: its size may be told late."""
        run = self.sight.fleet.runs.get(self.run_id) if self.sight.fleet else None
        if run is None or not self.sight.connected or self._fetching:
            return
        if run["state"] in LIVE or not self.query_one(LogView).reading.window.at_end:
            self._fetch_wanted(look=True)

    @work(group="log", exit_on_error=False)
    async def _fetch_wanted(self, *, look: bool = False) -> None:
        """Fetch ranges until all that is looked at is there."""
        log = self.query_one(LogView)
        self._fetching = True
        try:
            want = log.reading.wanted() or (log.reading.newer() if look else None)
            while want is not None and await self._fetch_one(log, want):
                want = log.reading.wanted()
        finally:
            self._fetching = False

    async def _fetch_one(self, log: LogView, want: Want) -> bool:
        attempt = log.reading.window.attempt
        try:
            part = await in_thread(
                lambda: self._source.log(
                    self.run_id, attempt=attempt, offset=want.offset, size=want.size
                )
            )
        except OrchError as error:
            log.empty = str(error)
            log.changed()
            return False
        if log.reading.window.attempt != attempt or not log.reading.take(want, part):
            return False
        log.changed()
        return bool(part.content)
