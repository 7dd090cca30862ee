"""What every full screen has: a sight of the fleet, a status bar, a footer made from the keys."""

from collections.abc import Iterable

from textual.app import ComposeResult
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Footer

from tui.fleet import Sight
from tui.widgets.status_bar import StatusBar


class Page(Screen[None]):
    """A screen that is shown a Sight; one that is covered paints when it comes back."""

    PLACE = ""
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide")]
    VERTICAL_BREAKPOINTS = [(0, "-low"), (34, "-high")]

    def __init__(self, name: str) -> None:
        super().__init__()
        self.sight = Sight(now=0.0)
        self._called = name

    def compose(self) -> ComposeResult:
        """The status bar, the page's own, the footer."""
        yield StatusBar(id="status")
        yield from self.parts()
        yield Footer(show_command_palette=False)

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
            self.sight, name=self._called, place=self.PLACE, hint="S starts it"
        )
        self.paint()

    def paint(self) -> None:
        """Tell the widgets what to show."""

    def action_back(self) -> None:
        """Go to the screen below."""
        if len(self.app.screen_stack) > 2:
            self.app.pop_screen()
