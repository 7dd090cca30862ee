"""The GPUs of the fleet, and which program of which run holds them."""

from collections.abc import Iterable

from textual import on
from textual.widget import Widget

from tui import gpus, keys
from tui.messages import RunOpened
from tui.screens.page import Page
from tui.widgets.paint import CellLines
from tui.widgets.table import Table


class TopScreen(Page):
    """One table over all targets; leftovers of runs that have ended are marked."""

    PLACE = "top"
    CSS_PATH = "top.tcss"
    BINDINGS = keys.bindings("top")

    @property
    def heading(self) -> str:
        """As the keys call it."""
        return "GPUs"

    def parts(self) -> Iterable[Widget]:
        """Summary and table."""
        yield CellLines(id="summary")
        yield Table(gpus.GPU_COLUMNS, id="gpus")

    def on_mount(self) -> None:
        """Begin in the table."""
        self.query_one(Table).focus()

    def paint(self) -> None:
        """Show the GPUs as they were sampled last."""
        sight = self.sight
        cells = gpus.gpu_summary(sight.fleet.targets.values()) if sight.fleet else []
        self.query_one("#summary", CellLines).show([cells] if cells else [])
        self.query_one(Table).show(gpus.gpu_rows(sight), empty=["", "No GPU is seen anywhere."])

    def subject(self) -> dict[str, str | None]:
        """The target and the program that the cursor is on."""
        key = self.query_one(Table).cursor
        return {"target": key.split(" ")[0] if key else None, "program": key}

    @on(Table.Chosen)
    def action_open(self) -> None:
        """Open the run that holds the GPU under the cursor."""
        key = self.query_one(Table).cursor or ""
        run = key.rpartition(" ")[2]
        if self.sight.fleet and run in self.sight.fleet.runs:
            self.post_message(RunOpened(run))
        else:
            self.notify("No run that is known here holds it.")
