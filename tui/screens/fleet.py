"""All targets and runs: what runs where, how it goes, what needs somebody."""

from collections.abc import Iterable

from textual import on
from textual.widget import Widget

from tui import gpus, keys, rows
from tui.messages import IncidentOpened, RunOpened, TopOpened
from tui.options import Options
from tui.screens.page import Page
from tui.widgets.paint import CellLines
from tui.widgets.prompt import Prompt
from tui.widgets.table import Table


class FleetScreen(Page):
    """Runs above, targets below; the newest run is under the cursor at first."""

    PLACE = "fleet"
    CSS_PATH = "fleet.tcss"
    BINDINGS = keys.bindings("fleet")

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._pointed = False
        self._words = ""
        self._order = next(iter(rows.SORTS))
        self._group = rows.GROUPS[0]

    def parts(self) -> Iterable[Widget]:
        """Summary, runs, targets."""
        yield CellLines(id="summary")
        yield CellLines(id="view")
        yield Table(rows.RUN_COLUMNS, id="runs")
        yield Table(gpus.TARGET_COLUMNS, id="targets")
        yield Prompt("words that a run has in it: a job, a target, a state, a why", id="filter")

    def on_mount(self) -> None:
        """Begin in the table of runs."""
        self.query_one("#runs", Table).focus()

    def subject(self) -> dict[str, str | None]:
        """The run under the cursor, or the target where the cursor is in the targets."""
        fleet = self.sight.fleet
        if self.focused is not None and self.focused.id == "targets":
            return {"target": self.query_one("#targets", Table).cursor}
        run = fleet.runs.get(self.query_one("#runs", Table).cursor or "") if fleet else None
        if fleet is None or run is None:
            return {}
        incident = fleet.incident_of(run)
        return {
            "run": run["id"],
            "target": run["target"],
            "incident": incident["id"] if incident else None,
        }

    def paint(self) -> None:
        """Make the rows and show them."""
        sight = self.sight
        self.query_one("#summary", CellLines).show([rows.summary(sight)] if sight.fleet else [])
        view = rows.view_line(words=self._words, order=self._order, group=self._group)
        self.query_one("#view", CellLines).show([view] if view else [])
        runs, targets = self.query_one("#runs", Table), self.query_one("#targets", Table)
        runs.show(
            rows.run_rows(sight, words=self._words, order=self._order, group=self._group),
            empty=self._nothing(),
        )
        targets.show(gpus.target_rows(sight))
        targets.styles.height = min(len(targets.rows) + 1, max(self.size.height // 3, 3))
        targets.display = bool(targets.rows)
        newest = sight.fleet.newest_run() if sight.fleet else None
        if newest is not None and not self._pointed:
            self._pointed = True
            runs.point_at(newest["id"])

    def _nothing(self) -> list[str]:
        """What stands where the runs would be."""
        sight = self.sight
        if sight.fleet is None:
            if sight.reason:
                remedy = f"{self.daemon_starter} starts one."
                return ["", "No daemon answers, so there is nothing to show.", remedy]
            return ["", "Calling the daemon ..."]
        if sight.fleet.runs:
            return ["", f"No run has {self._words!r} in it.", "Esc shows all of them."]
        jobs = ", ".join(sight.fleet.jobs()) or "none yet; e edits the inventory"
        return ["", "No runs yet.", f"Jobs: {jobs}.", "r launches one."]

    @on(Table.Chosen, "#runs")
    def _run_chosen(self, event: Table.Chosen) -> None:
        self.post_message(RunOpened(event.key))

    @on(Table.Chosen, "#targets")
    def _target_chosen(self) -> None:
        self.post_message(TopOpened())

    def action_open(self) -> None:
        """Open what the cursor is on."""
        if isinstance(self.focused, Table):
            self.focused.action_choose()

    def action_incident(self) -> None:
        """Open the incident of the run under the cursor, or the newest one."""
        open_ones = self.sight.fleet.open_incidents() if self.sight.fleet else []
        incident = self.subject().get("incident") or (open_ones[0]["id"] if open_ones else None)
        if incident is None:
            self.notify("There is no incident.")
        else:
            self.post_message(IncidentOpened(incident))

    # --- which runs, and in which order ----------------------------------------------------------

    def action_filter(self) -> None:
        """Ask for the words."""
        self.query_one(Prompt).ask()

    @on(Prompt.Changed, "#filter")
    def _filter(self, event: Prompt.Changed) -> None:
        self._words = event.value
        self.paint()

    @on(Prompt.Submitted, "#filter")
    @on(Prompt.Dropped, "#filter")
    def _filtered(self) -> None:
        self.query_one(Prompt).display = False
        self.query_one("#runs", Table).focus()

    def action_order(self) -> None:
        """The next order."""
        orders = list(rows.SORTS)
        self._order = orders[(orders.index(self._order) + 1) % len(orders)]
        self.paint()

    def action_group(self) -> None:
        """The next grouping."""
        at = rows.GROUPS.index(self._group)
        self._group = rows.GROUPS[(at + 1) % len(rows.GROUPS)]
        self.paint()

    def action_back(self) -> None:
        """Leave the filter, then order and groups; the fleet itself stays."""
        if self._words:
            self.query_one(Prompt).value = ""
        else:
            self._order, self._group = next(iter(rows.SORTS)), rows.GROUPS[0]
        self.paint()
