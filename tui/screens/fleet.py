"""All targets and runs: what runs where, how it goes, what needs somebody."""

from collections.abc import Iterable

from textual import on
from textual.widget import Widget

from tui import keys, rows
from tui.messages import RunOpened
from tui.screens.page import Page
from tui.widgets.paint import CellLines
from tui.widgets.table import Table


class FleetScreen(Page):
    """Runs above, targets below; the newest run is under the cursor at first."""

    PLACE = "fleet"
    CSS_PATH = "fleet.tcss"
    BINDINGS = keys.bindings("fleet")

    def parts(self) -> Iterable[Widget]:
        """Summary, runs, targets."""
        yield CellLines(id="summary")
        yield Table(rows.RUN_COLUMNS, id="runs")
        yield Table(rows.TARGET_COLUMNS, id="targets")

    def on_mount(self) -> None:
        """Begin in the table of runs."""
        self._pointed = False
        self.query_one("#runs", Table).focus()

    def paint(self) -> None:
        """Make the rows and show them."""
        sight = self.sight
        self.query_one("#summary", CellLines).show([rows.summary(sight)] if sight.fleet else [])
        runs, targets = self.query_one("#runs", Table), self.query_one("#targets", Table)
        runs.show(rows.run_rows(sight), empty=self._nothing())
        targets.show(rows.target_rows(sight))
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
                return ["", "No daemon answers, so there is nothing to show.", "S starts one."]
            return ["", "Calling the daemon ..."]
        jobs = ", ".join(sight.fleet.jobs()) or "none yet: add one to the inventory"
        return ["", "No runs yet.", f"Jobs: {jobs}.", "`orch run JOB` starts one."]

    @on(Table.Chosen, "#runs")
    def _run_chosen(self, event: Table.Chosen) -> None:
        self.post_message(RunOpened(event.key))

    def action_open(self) -> None:
        """Open what the cursor is on."""
        if isinstance(self.focused, Table):
            self.focused.action_choose()
