"""A person at the keys: what they press, and what they see then."""

import re

from textual.events import MouseScrollUp

from tests.tui.conftest import Made, press, screen_text, settle
from tui.screens.fleet import FleetScreen
from tui.screens.help import HelpScreen
from tui.screens.run import RunScreen
from tui.widgets.log_view import LogView
from tui.widgets.table import Table


async def test_the_newest_run_is_selected_and_enter_opens_it(dashboard: Made) -> None:
    """The cursor is on the newest run at first, and Enter shows that run with its log."""
    async with dashboard("healthy").run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        assert pilot.app.screen.query_one("#runs", Table).cursor == "dflash-3"
        await press(pilot, "enter")
        assert isinstance(pilot.app.screen, RunScreen)
        shown = screen_text(pilot)
        assert "step 1240/5000  loss 2.7795" in shown
        assert "4 busy" in shown


async def test_escape_goes_back_to_the_fleet(dashboard: Made) -> None:
    """Escape leaves a run for the fleet, and stays on the fleet."""
    async with dashboard("healthy").run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await press(pilot, "enter", "escape")
        assert isinstance(pilot.app.screen, FleetScreen)
        await press(pilot, "escape")
        assert isinstance(pilot.app.screen, FleetScreen)


async def test_a_mouse_points_and_opens(dashboard: Made) -> None:
    """A click puts the cursor on a run, a second one opens it; the wheel scrolls its log."""
    async with dashboard("healthy").run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        runs = pilot.app.screen.query_one("#runs", Table)
        await pilot.click(runs, offset=(10, 2))
        assert runs.cursor == "dflash-2"
        await press(pilot, "up")
        await pilot.click(runs, offset=(10, 1))
        await settle(pilot)
        assert isinstance(pilot.app.screen, RunScreen)
        view = pilot.app.screen.query_one(LogView)
        await pilot._post_mouse_events([MouseScrollUp], view, offset=(5, 5))
        await settle(pilot)
        assert not view.reading.following


async def test_a_page_that_was_left_changes_no_other(dashboard: Made) -> None:
    """A run looks the same after GPUs and plots were looked at, whose parts have names like its."""
    async with dashboard("healthy").run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await press(pilot, "enter")
        before = screen_text(pilot)
        await press(pilot, "t", "escape", "M", "escape", "v", "escape")
        assert screen_text(pilot) == before


async def test_q_quits_from_every_screen_without_a_question(dashboard: Made) -> None:
    """From the fleet, a run and the help, one `q` ends the dashboard."""
    for keys in ([], ["enter"], ["question_mark"], ["enter", "question_mark"]):
        app = dashboard("healthy")
        async with app.run_test(size=(80, 24)) as pilot:
            await settle(pilot)
            await press(pilot, *keys)
            await pilot.press("q")
        assert app.return_code == 0


async def test_help_lists_the_keys_of_the_page_first(dashboard: Made) -> None:
    """`?` shows what works here, then everywhere; Escape closes it."""
    async with dashboard("healthy").run_test(size=(100, 80)) as pilot:
        await settle(pilot)
        await press(pilot, "enter", "question_mark")
        assert isinstance(pilot.app.screen, HelpScreen)
        shown = screen_text(pilot)
        assert shown.index("Run") < shown.index("Everywhere") < shown.index("Fleet")
        await press(pilot, "escape")
        assert isinstance(pilot.app.screen, RunScreen)


async def test_a_daemon_that_went_leaves_what_was_seen_with_its_age(dashboard: Made) -> None:
    """The runs stay, the screen says since when nobody tells it more, and what to press."""
    async with dashboard("gone", at=61.0).run_test(size=(100, 24)) as pilot:
        await settle(pilot)
        shown = screen_text(pilot)
        assert "dflash-3" in shown
        assert "no daemon; this is 61s old" in shown
        assert "S starts it" in shown
        assert pilot.app.screen.has_class("-stale")


async def test_read_only_names_the_command_that_starts_a_daemon(dashboard: Made) -> None:
    """A key that does nothing is not offered."""
    async with dashboard("gone", at=61.0, read_only=True).run_test(size=(120, 24)) as pilot:
        await settle(pilot)
        shown = screen_text(pilot)
        assert "`orch daemon start` starts it" in shown
        assert "S starts it" not in shown


async def test_remote_escapes_never_reach_the_terminal(dashboard: Made) -> None:
    """Nothing that a target wrote arrives as a control character, in tables or in logs."""
    async with dashboard("hostile").run_test(size=(160, 40)) as pilot:
        await settle(pilot)
        for keys in ([], ["enter"]):
            await press(pilot, *keys)
            shown = screen_text(pilot).replace("\n", "")
            assert "red" in shown
            assert not re.search("[\x00-\x1f\x7f-\x9f\u202e]", shown)
        assert pilot.app.screen.query_one(LogView).reading.window.lines[2].text == "bell    tab"
