"""The dashboard's app: takes frames from the source, holds the sight, and moves between screens.

Screens other than the first, and what asks and acts, are imported where they are first wanted:
together they cost a tenth of the time to the first picture.
"""

import gc
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from textual import on, work
from textual.app import App
from textual.notifications import SeverityLevel

from orchestrator.core.errors import OrchError
from tui import bridge, keys
from tui.fleet import LIVE, Course, Sight
from tui.messages import (
    ActionWanted,
    FrameReceived,
    IncidentOpened,
    LogPlaceWanted,
    PageWanted,
    RunOpened,
    SilencesOpened,
    TopOpened,
)
from tui.options import Options
from tui.palette import KeyCommands
from tui.screens.fleet import FleetScreen
from tui.screens.page import Page
from tui.source import Source, run_path
from tui.themes import THEMES

if TYPE_CHECKING:
    from tui.acts import Acts

AGEING_S = 1.0
MAX_BACKFILLS = 20


class Dashboard(App[None]):
    """Fleet, runs, incidents and GPUs of one daemon."""

    TITLE = "orch"
    CSS_PATH = "app.tcss"
    BINDINGS = keys.bindings("app")
    COMMANDS = {KeyCommands}
    ENABLE_COMMAND_PALETTE = True

    def __init__(self, source: Source, options: Options) -> None:
        super().__init__()
        self.source = source
        self.options = options
        self.sight = Sight(now=source.now())
        self._courses: dict[str, Course] = {}
        self._backfilled: set[str] = set()
        for theme in THEMES:
            self.register_theme(theme)
        self.theme = THEMES[0].name

    @cached_property
    def _acts(self) -> "Acts":
        from tui.acts import Acts

        return Acts(self, self.source, self.options)

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = False,  # noqa: ARG002  see below
    ) -> None:
        """As Textual's, but never as markup: a target's words would be links and actions."""
        super().notify(message, title=title, severity=severity, timeout=timeout, markup=False)

    def get_default_screen(self) -> FleetScreen:
        """The fleet is below all others."""
        return FleetScreen(self.options)

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """A colour of our own, for themes that are not ours."""
        return {"quiet": "#8d98a5"}

    def on_mount(self) -> None:
        """Begin to listen."""
        self._watch()
        self.set_interval(AGEING_S, self._age)
        self.call_after_refresh(_collect_again)

    # --- what the source tells -------------------------------------------------------------------

    @work(exclusive=True, group="source")
    async def _watch(self) -> None:
        async for frame in bridge.iterate(self.source.watch):
            self.post_message(FrameReceived(frame.fleet, frame.connected, frame.reason))

    @on(FrameReceived)
    def _see(self, frame: FrameReceived) -> None:
        now = self.source.now()
        if frame.connected and frame.fleet is not None:
            for run in frame.fleet.runs.values():
                if run["state"] in LIVE:
                    self._courses.setdefault(run["id"], Course()).note(run)
        self.sight = Sight(
            now=now,
            fleet=frame.fleet,
            connected=frame.connected,
            told_at=frame.fleet.at if frame.fleet is not None else None,
            reason=frame.reason,
            courses=self._courses,
        )
        self._show()
        self._backfill()

    def _age(self) -> None:
        """Ages grow though nothing is told."""
        self.sight = replace(self.sight, now=self.source.now())
        self._show()

    def _show(self) -> None:
        if not self.is_running:
            return  # the screens are being taken down
        for screen in self.screen_stack:
            if isinstance(screen, Page):
                screen.show(self.sight)

    def _backfill(self) -> None:
        """Ask once for the course of every run that lives, up to a number."""
        fleet = self.sight.fleet
        if fleet is None or not self.sight.connected:
            return
        live = [run["id"] for run in fleet.runs.values() if run["state"] in LIVE]
        new = [run for run in live if run not in self._backfilled][:MAX_BACKFILLS]
        if new and len(self._backfilled) < MAX_BACKFILLS:
            self._backfilled.update(new)
            self._fetch_courses(new)

    @work(group="courses")
    async def _fetch_courses(self, runs: list[str]) -> None:
        for run in runs:
            path = run_path(run, "/metrics")
            try:
                found = await bridge.in_thread(lambda path=path: self.source.ask("GET", path))  # type: ignore[misc]  # mypy cannot infer a lambda with a default
            except OrchError:
                continue  # its small picture begins now
            self._courses.setdefault(run, Course()).backfill(found.get("metrics") or [])
        self._show()

    # --- moving between screens ------------------------------------------------------------------

    def _open(self, page: Page) -> None:
        page.show(self.sight)
        self.push_screen(page)

    @on(RunOpened)
    def _open_run(self, event: RunOpened) -> None:
        from tui.screens.run import RunScreen

        self._open(RunScreen(event.run, options=self.options, source=self.source))

    def action_act(self, name: str) -> None:
        """Do what a key or the command palette asks for, about nothing in particular."""
        self.post_message(ActionWanted(name))

    @on(ActionWanted)
    def _act(self, wanted: ActionWanted) -> None:
        self.run_worker(self._acts.perform(wanted, self.sight), group="acts")

    @on(IncidentOpened)
    def _open_incident(self, event: IncidentOpened) -> None:
        from tui.screens.incident import IncidentScreen

        self._open(IncidentScreen(event.incident, options=self.options))

    @on(LogPlaceWanted)
    def _open_log(self, event: LogPlaceWanted) -> None:
        from tui.screens.run import RunScreen

        at = (event.attempt, event.offset)
        self._open(RunScreen(event.run, options=self.options, source=self.source, at=at))

    @on(PageWanted)
    def _open_page(self, event: PageWanted) -> None:
        from tui.screens.plots import PlotsScreen
        from tui.screens.told import ToldScreen

        if event.name == "plots":
            self._open(PlotsScreen(event.run, options=self.options, source=self.source))
        else:
            page = ToldScreen(event.name, event.run, options=self.options, source=self.source)
            self._open(page)

    @on(TopOpened)
    def _open_top(self) -> None:
        from tui.screens.top import TopScreen

        if not isinstance(self.screen, TopScreen):
            self._open(TopScreen(self.options))

    @on(SilencesOpened)
    def _open_silences(self) -> None:
        from tui.screens.silences import SilencesScreen

        self._open(SilencesScreen(options=self.options, source=self.source))

    def action_theme(self) -> None:
        """The next look."""
        names = [theme.name for theme in THEMES]
        at = names.index(self.theme) if self.theme in names else -1
        self.theme = names[(at + 1) % len(names)]

    def action_help(self) -> None:
        """Show every key."""
        from tui.screens.help import HelpScreen

        if not isinstance(self.screen, HelpScreen):
            page = self.screen.PLACE if isinstance(self.screen, Page) else ""
            self.push_screen(HelpScreen(page, read_only=self.options.read_only))


def _collect_again() -> None:
    """Collect garbage again, where starting put it off; what is there by now lives to the end."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()
