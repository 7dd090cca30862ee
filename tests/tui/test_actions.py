"""What is done about runs: through the real API server, asked first, told as it goes."""

import asyncio
import os
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from orchestrator.api.location import Location, locate
from orchestrator.api.messages import Snapshot
from orchestrator.core.errors import OrchError
from tests.cli.canned import CannedBackend, CannedDaemon, running
from tests.conftest import XdgFolders
from tests.tui.conftest import screen_text, until
from tui.app import Dashboard
from tui.options import Options
from tui.screens.incident import IncidentScreen
from tui.screens.run import RunScreen
from tui.screens.windows import Activity, AskWhy, Confirm
from tui.source import LiveSource


@pytest.fixture
def location(short_folder: Path, xdg: XdgFolders) -> Location:
    """An inventory, and where its daemon would be."""
    path = short_folder / "inventory.yaml"
    path.write_text("version: 1\n")
    return locate(path, os.environ)


class StayingBackend(CannedBackend):
    """As the canned one, but its events go on until the daemon ends, as a real daemon's do."""

    def __init__(self, location: Location) -> None:
        super().__init__(location)
        self.documents["metrics"] = {"metrics": []}

    async def changes(self, since: int) -> AsyncGenerator[Snapshot, None]:
        """No change, ever."""
        yield await self.snapshot(since)
        await asyncio.sleep(3600)


@pytest.fixture
def canned(location: Location) -> Iterator[CannedBackend]:
    """A daemon that answers from a table: dflash-3 runs, dflash-2 crashed."""
    with CannedDaemon(location, StayingBackend(location)) as daemon:
        yield daemon.backend


def live(location: Location, *, read_only: bool = False) -> Dashboard:
    """The dashboard of that daemon."""
    return Dashboard(LiveSource(location), Options(name="inventory", read_only=read_only))


async def ready(pilot: Pilot[None]) -> None:
    """Wait for the first snapshot, and its cursor on a run."""
    await until(pilot, lambda: "dflash-3" in screen_text(pilot), "the runs")


def asked(backend: CannedBackend, what: str) -> list[dict[str, Any]]:
    """What the daemon was asked of that kind."""
    return [said for kind, _, said in backend.asked if kind == what]


async def test_deploy_shows_the_plan_and_only_y_deploys(
    canned: CannedBackend, location: Location
) -> None:
    """First only a plan is asked for; Esc leaves it at that, `y` deploys and tells how it went."""
    async with live(location).run_test(size=(100, 30)) as pilot:
        await ready(pilot)
        for answer in ("escape", "y"):
            await pilot.press("d")
            await until(pilot, lambda: isinstance(pilot.app.screen, Confirm), "the plan")
            assert "trainer/dflash_model.py" in screen_text(pilot)
            await pilot.press(answer)
        await until(pilot, lambda: "deployed 4be1d0" in screen_text(pilot), "the end")
        told = [said["dry_run"] for said in asked(canned, "deploy")]
        assert told == [True, True, False]


async def test_run_asks_why_and_opens_the_new_run(
    canned: CannedBackend, location: Location
) -> None:
    """The why is sent along, the old run is stopped where the box says so, the new one opens."""
    async with live(location).run_test(size=(100, 30)) as pilot:
        await ready(pilot)
        await pilot.press("r")
        await until(pilot, lambda: isinstance(pilot.app.screen, AskWhy), "the question")
        assert "dflash-3 lives" in screen_text(pilot)
        await pilot.press(*"lock", "tab", "space", "shift+tab", "enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, RunScreen), "the run")
        (said,) = asked(canned, "run")
        assert (said["job"], said["why"], said["replace"]) == ("dflash", "lock", True)


async def test_a_refused_launch_says_what_to_do(canned: CannedBackend, location: Location) -> None:
    """The error and its remedy stay on the screen until they are closed."""
    canned.raises["run"] = OrchError("GPU 0 is held.", remedy="Stop process 4242.")
    async with live(location).run_test(size=(100, 30)) as pilot:
        await ready(pilot)
        await pilot.press("r")
        await until(pilot, lambda: isinstance(pilot.app.screen, AskWhy), "the question")
        await pilot.press("enter")
        await until(pilot, lambda: "GPU 0 is held." in screen_text(pilot), "the error")
        assert "Stop process 4242." in screen_text(pilot)
        assert isinstance(pilot.app.screen, Activity)


async def test_stop_names_the_run_and_what_it_costs(
    canned: CannedBackend, location: Location
) -> None:
    """The question names run, target, session; `y` stops and says when the GPUs are free."""
    async with live(location).run_test(size=(100, 30)) as pilot:
        await ready(pilot)
        await pilot.press("s")
        await until(pilot, lambda: isinstance(pilot.app.screen, Confirm), "the question")
        assert "dflash-3 on ct200, tmux session dflash" in screen_text(pilot)
        assert not asked(canned, "stop")
        await pilot.press("y")
        await until(pilot, lambda: "GPUs 0-7 free after 3.2 s" in screen_text(pilot), "the end")


async def test_an_incident_is_acknowledged_from_its_screen(
    canned: CannedBackend, location: Location
) -> None:
    """`i` opens the incident, `A` tells the daemon that somebody cares."""
    async with live(location).run_test(size=(100, 30)) as pilot:
        await ready(pilot)
        await pilot.press("i")
        await until(pilot, lambda: isinstance(pilot.app.screen, IncidentScreen), "the incident")
        assert "Compile once, before the threads start." in screen_text(pilot)
        await pilot.press("A")
        await until(pilot, lambda: bool(asked(canned, "ack")), "the acknowledgement")


async def test_read_only_does_nothing_and_says_so(
    canned: CannedBackend, location: Location
) -> None:
    """No key that changes anything asks the daemon for it, and none is in the footer."""
    async with live(location, read_only=True).run_test(size=(100, 30), notifications=True) as pilot:
        await ready(pilot)
        await until(pilot, lambda: "help" in screen_text(pilot).splitlines()[-1], "the footer")
        assert "deploy" not in screen_text(pilot).splitlines()[-1]
        await pilot.press("d", "r", "s", "B", "A", "a", "x")
        await until(pilot, lambda: "--read-only" in screen_text(pilot), "the reason")
        assert {kind for kind, _, _ in canned.asked} <= {"snapshot", "get", "log", "metrics"}


async def test_the_palette_finds_an_action_by_its_name(
    canned: CannedBackend, location: Location
) -> None:
    """`:` and a few letters do what the key would."""
    async with live(location).run_test(size=(100, 30)) as pilot:
        await ready(pilot)
        await pilot.press("colon")
        await until(pilot, lambda: bool(pilot.app.screen.query(Input)), "the palette")
        await pilot.press(*"stop")
        await until(pilot, lambda: "stop  (s)" in screen_text(pilot), "the hit")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, Confirm), "the question")


async def test_it_opens_without_a_daemon_and_finds_one_that_comes_goes_and_comes_back(
    location: Location,
) -> None:
    """It says that there is none, shows runs as soon as there is one, and keeps them after it."""
    async with live(location).run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: "S starts one." in screen_text(pilot), "the empty fleet")
        with CannedDaemon(location, StayingBackend(location)):
            await ready(pilot)
            assert "● daemon" in screen_text(pilot)
        await until(pilot, lambda: "○ no daemon" in screen_text(pilot), "that it is gone")
        assert "dflash-3" in screen_text(pilot)
        backend = StayingBackend(location)
        backend.documents["runs"]["runs"] = [running(id="dflash-4", number=4)]
        with CannedDaemon(location, backend):
            await until(pilot, lambda: "dflash-4" in screen_text(pilot), "the new run")


async def test_a_level_without_a_line_is_said(canned: CannedBackend, location: Location) -> None:
    """The run wrote lines, none of them an error: `nothing written` would be wrong."""
    async with live(location).run_test(size=(100, 30)) as pilot:
        await ready(pilot)
        await pilot.press("enter")
        await until(pilot, lambda: "bar 99%" in screen_text(pilot), "the log")
        await pilot.press("l", "l")
        await until(pilot, lambda: "No line of this level." in screen_text(pilot), "the words")
        assert "Nothing written yet." not in screen_text(pilot)
