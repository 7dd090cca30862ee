"""The dashboard's app: takes frames from the source, holds the sight, and moves between screens."""

import subprocess
from dataclasses import dataclass, replace

from textual import on, work
from textual.app import App

from orchestrator.core.errors import OrchError
from tui import bridge, keys
from tui.fleet import LIVE, Course, Sight
from tui.messages import ActionWanted, FrameReceived, RunOpened
from tui.screens.fleet import FleetScreen
from tui.screens.help import HelpScreen
from tui.screens.page import Page
from tui.screens.run import RunScreen
from tui.source import Source, run_path
from tui.text import harmless

AGEING_S = 1.0
MAX_BACKFILLS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the command line said."""

    name: str
    """Whose daemon it is: the inventory's path, or a replay's title."""
    orch: tuple[str, ...] = ()
    """The command line itself, as argv; empty where there is none to call."""
    read_only: bool = False


class Dashboard(App[None]):
    """Fleet, runs, incidents and GPUs of one daemon."""

    TITLE = "orch"
    CSS_PATH = "app.tcss"
    BINDINGS = keys.bindings("app")

    def __init__(self, source: Source, options: Options) -> None:
        super().__init__()
        self.source = source
        self.options = options
        self.sight = Sight(now=source.now())
        self._courses: dict[str, Course] = {}
        self._backfilled: set[str] = set()

    def on_mount(self) -> None:
        """Show the fleet, and begin to listen."""
        self._open(FleetScreen(self.options.name))
        self._watch()
        self.set_interval(AGEING_S, self._age)

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
        self._open(RunScreen(event.run, name=self.options.name, source=self.source))

    def action_act(self, name: str) -> None:
        """Do what a key or the command palette asks for."""
        self.post_message(ActionWanted(name))

    @on(ActionWanted)
    def _act(self, wanted: ActionWanted) -> None:
        if keys.by_id(wanted.action).changes and self.options.read_only:
            self.notify("The dashboard was started with --read-only.", severity="warning")
            return
        self._perform(wanted)

    @work(group="acts")
    async def _perform(self, wanted: ActionWanted) -> None:
        match wanted.action:
            case "start_daemon":
                await self._start_daemon()
            case _:
                raise AssertionError(wanted.action)

    async def _start_daemon(self) -> None:
        if self.sight.connected:
            self.notify("A daemon is running already.")
            return
        self.notify("Starting the daemon ...")
        argv = [*self.options.orch, "daemon", "start"]
        ran = await bridge.in_thread(
            lambda: subprocess.run(
                argv, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
            )
        )
        if ran.returncode:
            said = harmless(ran.stderr.strip() or f"it left with {ran.returncode}")
            self.notify(said, title="The daemon did not start", severity="error", timeout=30)

    def action_help(self) -> None:
        """Show every key."""
        if not isinstance(self.screen, HelpScreen):
            page = self.screen.PLACE if isinstance(self.screen, Page) else ""
            self.push_screen(HelpScreen(page, read_only=self.options.read_only))
