"""What else a run's page offers: its history, plots, a time in the log; GPUs and alerts in hand."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.api.location import Location, locate
from tests.cli.canned import CannedBackend, CannedDaemon
from tests.conftest import XdgFolders
from tests.tui.conftest import Made, press, screen_text, settle, until
from tests.tui.pieces import SILENCES
from tests.tui.test_actions import StayingBackend, asked, live, ready
from tui.screens.fleet import FleetScreen
from tui.screens.windows import Confirm
from tui.widgets.log_view import LogView


@pytest.fixture
def location(short_folder: Path, xdg: XdgFolders, monkeypatch: pytest.MonkeyPatch) -> Location:
    """An inventory in the folder that one stands in, and where its daemon would be."""
    monkeypatch.chdir(short_folder)
    path = short_folder / "inventory.yaml"
    path.write_text("version: 1\n")
    return locate(path, os.environ)


@pytest.fixture
def canned(location: Location) -> Iterator[CannedBackend]:
    """A daemon that answers from a table."""
    with CannedDaemon(location, StayingBackend(location)) as daemon:
        yield daemon.backend


async def test_a_program_is_ended_only_after_it_was_named(
    canned: CannedBackend, location: Location
) -> None:
    """Host, container, PID, command and whose it is stand in the question; `y` ends just that."""
    canned.documents["end-process"] = {"pid": 4242, "command": "python3", "ended": True}
    async with live(location).run_test(size=(100, 30), notifications=True) as pilot:
        await ready(pilot)
        await pilot.press("t", "K")
        await until(pilot, lambda: isinstance(pilot.app.screen, Confirm), "the question")
        shown = screen_text(pilot)
        for words in ("host pve1, container", "PID 4242: python3", "40.0 GiB of GPU 0", "dflash-2"):
            assert words in shown
        assert not asked(canned, "end-process")
        await pilot.press("y")
        await until(pilot, lambda: "PID 4242 ended." in screen_text(pilot), "the answer")
        (said,) = asked(canned, "end-process")
        assert said == {"pid": 4242, "start": 77, "command": "python3"}


async def test_alerts_like_an_incident_are_silenced_for_a_while(
    canned: CannedBackend, location: Location
) -> None:
    """`Z` asks which alerts and how long, and tells where it is ended."""
    canned.documents["silence-add"] = {"id": "s-1"}
    async with live(location).run_test(size=(100, 30), notifications=True) as pilot:
        await ready(pilot)
        await pilot.press("i")
        await until(pilot, lambda: "what died" in screen_text(pilot), "the incident")
        for words in ("fx_trace_race of job dflash", "an hour"):
            await pilot.press(*("Z" if words.startswith("fx") else ()))
            await until(pilot, lambda words=words: words in screen_text(pilot), "the question")  # type: ignore[misc]  # mypy cannot infer a lambda with a default
            await pilot.press("enter")
        await until(pilot, lambda: "Silenced as s-1. z lists" in screen_text(pilot), "the answer")
        (said,) = asked(canned, "silence-add")
        assert said["match"] == {"alertname": "fx_trace_race", "job": "dflash"}
        assert said["for_s"] == 3600


async def test_a_silence_is_ended_only_after_it_was_named(
    canned: CannedBackend, location: Location
) -> None:
    """`z` lists what is kept back; `K` there ends a person's, and refuses the inventory's."""
    canned.documents |= {"silences": {"silences": SILENCES}, "silence-expire": {}}
    async with live(location).run_test(size=(100, 30), notifications=True) as pilot:
        await ready(pilot)
        await pilot.press("z")
        await until(pilot, lambda: "alertname=fx_trace_race job=dflash" in screen_text(pilot), "it")
        assert "I break it on purpose" in screen_text(pilot)
        await pilot.press("K")
        await until(pilot, lambda: "stands in the inventory" in screen_text(pilot), "why not")
        await pilot.press("down", "K")
        await until(pilot, lambda: isinstance(pilot.app.screen, Confirm), "the question")
        assert "alertname=fx_trace_race job=dflash" in screen_text(pilot)
        assert not asked(canned, "silence-expire")
        canned.documents["silences"] = {"silences": []}
        await pilot.press("y")
        await until(pilot, lambda: "No alert is kept back." in screen_text(pilot), "the end of it")
        assert len(asked(canned, "silence-expire")) == 1
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(pilot.app.screen, FleetScreen), "the way back")


async def test_a_bundle_is_saved_here_and_never_over_another(
    canned: CannedBackend, location: Location
) -> None:
    """The archive lands in the folder one stands in, whatever path its name pretends to."""
    async with live(location).run_test(size=(100, 30), notifications=True) as pilot:
        await ready(pilot)
        await pilot.press("enter", "b")
        await until(pilot, lambda: Path("x.tar.gz").exists(), "the archive")
        await until(pilot, lambda: "Saved as" in screen_text(pilot), "the word")
        await pilot.press("b")
        await until(pilot, lambda: "File exists" in screen_text(pilot), "the refusal")
    assert Path("x.tar.gz").read_bytes() == b"gz"


@pytest.mark.parametrize("size", [(80, 24), (140, 40)])
async def test_a_match_is_told_among_all(dashboard: Made, size: tuple[int, int]) -> None:
    """From the end of the log the last match comes first; what is told of it is never cut off."""
    async with dashboard("healthy").run_test(size=size) as pilot:
        await settle(pilot)
        await press(pilot, "enter", "slash", *"checkpoint", "enter")
        assert "match 2 of 2" in screen_text(pilot)
        await press(pilot, "N")
        assert "match 1 of 2" in screen_text(pilot)
        await press(pilot, "N")
        assert "no match above; n looks the other way" in screen_text(pilot)


async def test_a_time_is_gone_to_in_the_log(dashboard: Made) -> None:
    """`@` and `20s` go to what was written then; what is no time is said to be none."""
    async with dashboard("healthy", at=60.0).run_test(size=(100, 24), notifications=True) as pilot:
        await settle(pilot)
        await press(pilot, "enter", "at", *"20s", "enter")
        reading = pilot.app.screen.query_one(LogView).reading
        assert not reading.following
        line = reading.window.line_at(reading.marked or 0)
        assert line is not None
        assert line.text.startswith("step 1280/")
        await pilot.press("at", *"soon", "enter")
        await until(pilot, lambda: "no time such as" in screen_text(pilot), "the word")


async def test_another_run_is_drawn_beside_and_metrics_are_picked(dashboard: Made) -> None:
    """`c` asks which run, Enter shows or hides the metric under the cursor, `L` its log axis."""
    async with dashboard("healthy").run_test(size=(110, 36)) as pilot:
        await settle(pilot)
        await press(pilot, "enter", "M")
        assert "loss 2.694 (log)" in screen_text(pilot)
        await press(pilot, "c")
        assert "Beside which run?" in screen_text(pilot)
        await press(pilot, "enter")
        assert "beside dflash-2" in screen_text(pilot)
        await press(pilot, "L", "G", "enter")
        shown = screen_text(pilot)
        assert "loss 2.694  beside" in shown
        assert "minute 0 to 29" in shown
