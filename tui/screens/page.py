"""What every full screen has: a sight of the fleet, a status bar, a footer made from the keys."""

from collections.abc import Iterable

from textual import events
from textual.app import ComposeResult
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Footer, Input

from tui import keys
from tui.fleet import Sight
from tui.messages import ActionWanted, PageWanted, SilencesOpened, TopOpened
from tui.options import Options
from tui.widgets.status_bar import StatusBar

WIDE_CELLS, HIGH_LINES = 110, 30
"""From this size on there is room for panels beside the log, and for plots."""


class Page(Screen[None]):
    """A screen that is shown a Sight; one that is covered paints when it comes back."""

    PLACE = ""
    """Its name in the registry of keys."""
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (WIDE_CELLS, "-wide")]

    def __init__(self, options: Options) -> None:
        super().__init__()
        self.sight = Sight(now=0.0)
        self.options = options

    def compose(self) -> ComposeResult:
        """The status bar, the page's own, the footer."""
        yield StatusBar(id="status")
        yield from self.parts()
        yield Footer(show_command_palette=False)

    @property
    def heading(self) -> str:
        """What the status bar calls it."""
        return self.PLACE

    def parts(self) -> Iterable[Widget]:
        """The page's own widgets."""
        return ()

    def show(self, sight: Sight) -> None:
        """Take the newest sight, and paint it where the screen is not covered."""
        self.sight = sight
        if self.is_mounted and self.is_current:
            self._paint_all()

    def on_mount(self) -> None:
        """Paint what was seen before the screen was there."""
        self._paint_all()

    def on_screen_resume(self) -> None:
        """Paint what was seen while another screen covered this one."""
        self._paint_all()

    def _paint_all(self) -> None:
        self.set_class(not self.sight.connected and self.sight.fleet is not None, "-stale")
        self.query_one(StatusBar).tell(
            self.sight,
            name=self.options.name,
            place=self.heading,
            hint=f"{self.daemon_starter} starts it",
        )
        self.paint()

    @property
    def daemon_starter(self) -> str:
        """What starts a daemon: a key, or a command where keys change nothing."""
        return "`orch daemon start`" if self.options.read_only else "S"

    def paint(self) -> None:
        """Tell the widgets what to show."""

    # --- what can be done here -------------------------------------------------------------------

    def why_not(self, key: keys.Key) -> str | None:
        """Why a key of the page does nothing now; None where it does something."""
        if key.changes and self.options.read_only:
            return "The dashboard was started with --read-only."
        return None

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Keys that do nothing now are not in the footer."""
        key = keys.of_action(self.PLACE, action, parameters)
        if key is not None and key.types and isinstance(self.focused, Input):
            return False  # it is a letter now
        return key is None or self.why_not(key) is None

    def on_key(self, event: events.Key) -> None:
        """Say why a key does nothing, instead of doing nothing."""
        key = next((one for one in keys.at(self.PLACE) if event.key in one.keys.split(",")), None)
        if key is not None and (why := self.why_not(key)) is not None:
            self.notify(why, severity="warning")

    def subject(self) -> dict[str, str | None]:
        """What an action would be about: run, target, incident."""
        return {}

    def action_act(self, name: str) -> None:
        """Ask for something to be done about what the page shows."""
        self.post_message(ActionWanted(name, **self.subject()))

    def action_page(self, name: str) -> None:
        """Open a page about the run that the page is about."""
        run = self.subject().get("run")
        if run is not None:
            self.post_message(PageWanted(name, run))

    def action_top(self) -> None:
        """Open the GPUs of the fleet."""
        self.post_message(TopOpened())

    def action_silences(self) -> None:
        """Open the list of silences."""
        self.post_message(SilencesOpened())

    def action_back(self) -> None:
        """Go to the screen below."""
        if len(self.app.screen_stack) > 1:
            self.app.pop_screen()
