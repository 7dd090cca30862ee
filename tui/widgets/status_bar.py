"""The line at the top of every screen: whose daemon this is, and whether it still talks."""

from tui import text
from tui.cells import Cell
from tui.fleet import Sight
from tui.widgets.paint import CellLines


class StatusBar(CellLines):
    """One line; where the daemon is gone it says since when, why, and what to do."""

    def tell(self, sight: Sight, *, name: str, place: str, hint: str) -> None:
        """Show the state of the connection; `hint` is what to press where there is none."""
        line = [Cell("orch", "strong"), Cell(place)]
        if sight.connected and sight.fleet is not None:
            daemon = sight.fleet.daemon
            line.append(Cell("● daemon", "good"))
            line.append(Cell(text.harmless(name), "muted"))
            if daemon.get("inventory_error"):
                line.append(Cell("! inventory has faults: the last good one is used", "bad"))
            unset = [sink["name"] for sink in daemon.get("sinks", ()) if sink["state"] != "ready"]
            if unset:
                line.append(Cell(f"! alerts wait: {', '.join(unset)} not ready", "warn"))
        elif sight.told_at is None and not sight.reason:
            line.append(Cell("◐ calling the daemon", "busy"))
        else:
            if sight.told_at is not None:
                old = text.age(sight.now - sight.told_at)
                line.append(Cell(f"○ no daemon; this is {old} old", "bad"))
            else:
                line.append(Cell("○ no daemon", "bad"))
            line.append(Cell(hint, "strong"))
            line.append(Cell(text.harmless(sight.reason), "muted"))
        self.show([line])
