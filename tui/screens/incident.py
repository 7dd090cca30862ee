"""One incident, whole: what died, where, why, what it is like, what was tried, what to do."""

from collections.abc import Iterable

from textual.widget import Widget

from orchestrator.api.messages import IncidentView
from tui import keys
from tui.messages import LogPlaceWanted
from tui.options import Options
from tui.screens.page import Page
from tui.story import Paragraph, place_in_log, story
from tui.widgets.prose import Prose, prose_lines


class IncidentScreen(Page):
    """An incident, by its id."""

    PLACE = "incident"
    CSS_PATH = "incident.tcss"
    BINDINGS = keys.bindings("incident")

    def __init__(self, incident: str, *, options: Options) -> None:
        super().__init__(options)
        self.incident_id = incident

    def parts(self) -> Iterable[Widget]:
        """One text that scrolls."""
        yield Prose(id="story")

    def on_mount(self) -> None:
        """Take the keys that scroll."""
        self.query_one(Prose).focus()

    @property
    def incident(self) -> IncidentView | None:
        """The incident as it was seen last."""
        return self.sight.fleet.incidents.get(self.incident_id) if self.sight.fleet else None

    def subject(self) -> dict[str, str | None]:
        """The incident, its run and target."""
        incident = self.incident
        if incident is None:
            return {"incident": self.incident_id}
        return {
            "incident": incident["id"],
            "run": incident["run"],
            "target": incident["target"],
        }

    def paint(self) -> None:
        """Tell it anew where something changed; its ages alone change nothing but themselves."""
        incident = self.incident
        if incident is None:
            told = [Paragraph(f"{self.incident_id} is not known here", (), "muted")]
        else:
            told = story(incident, self.sight.fleet, self.sight.now)
        self.query_one(Prose).show(prose_lines(told))

    def action_finding(self) -> None:
        """Open the log at the place that the incident speaks of."""
        incident = self.incident
        place = place_in_log(incident["finding"]) if incident else None
        if incident is None or place is None:
            self.notify("The incident has no place in the log.")
        else:
            self.post_message(LogPlaceWanted(incident["run"], incident["attempt"], place))

    def action_copy(self) -> None:
        """Copy the whole story."""
        self.query_one(Prose).copy()
