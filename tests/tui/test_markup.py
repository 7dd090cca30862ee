"""What a target says stands in windows and notes as it is: Textual's markup in it does nothing."""

import os

import pytest
from textual.screen import ModalScreen

from orchestrator.api.location import locate
from tests.conftest import XdgFolders
from tests.tui.conftest import screen_text
from tui.app import Dashboard
from tui.cells import Cell
from tui.options import Options
from tui.screens.windows import Activity, AskWhy, Choose, Confirm
from tui.source import LiveSource

ATTACKS = ("[@click=app.quit]click[/]", "[/nope] all is well", "[b]", "[link=http://evil.example]")
WINDOWS = {
    "confirm": lambda said: Confirm(said, (), "does it"),
    "choose": lambda said: Choose(said, [said]),
    "ask why": lambda said: AskWhy(said, (), lives=said),
    "activity": Activity,
}


@pytest.fixture
def dashboard(xdg: XdgFolders) -> Dashboard:
    """A dashboard whose daemon is not there."""
    path = xdg.home / "inventory.yaml"
    path.write_text("version: 1\n")
    return Dashboard(LiveSource(locate(path, os.environ)), Options(name="inventory"))


@pytest.mark.parametrize("said", ATTACKS)
@pytest.mark.parametrize("window", WINDOWS)
async def test_titles_are_no_markup(dashboard: Dashboard, window: str, said: str) -> None:
    """A window's title is shown letter by letter, and nothing in it can be clicked."""
    screen: ModalScreen[object] = WINDOWS[window](said)  # type: ignore[assignment]
    async with dashboard.run_test(size=(100, 30)) as pilot:
        await dashboard.push_screen(screen)
        await pilot.pause()
        if isinstance(screen, Activity):
            screen.tell((), said)
            screen.end(said)
            await pilot.pause()
        assert said in screen_text(pilot)


@pytest.mark.parametrize("said", ATTACKS)
async def test_lines_of_a_question_are_no_markup(dashboard: Dashboard, said: str) -> None:
    """What a window says below its title, as the command of a process, is shown as it is."""
    async with dashboard.run_test(size=(100, 30)) as pilot:
        await dashboard.push_screen(Confirm("End it?", (Cell(said),), "does it"))
        await pilot.pause()
        assert said in screen_text(pilot)


@pytest.mark.parametrize("said", ATTACKS)
async def test_notes_are_no_markup(dashboard: Dashboard, said: str) -> None:
    """A note is shown letter by letter, whichever part of the dashboard makes it."""
    async with dashboard.run_test(size=(100, 30), notifications=True) as pilot:
        dashboard.screen.notify(said, title=said)
        await pilot.pause()
        (note,) = dashboard.screen.query("Toast")
        shown = note.render()
        assert str(shown).count(said) == 2
        assert "click" not in repr(getattr(shown, "spans", ()))
