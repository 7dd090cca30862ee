"""The screens as pictures, over replays of named situations; `make snapshots` draws them anew."""

from collections.abc import Callable

import pytest
from textual.pilot import Pilot

from tests.tui.conftest import Made, press, settle

Compare = Callable[..., bool]

FLEETS = (
    ("none", (80, 24)),
    ("healthy", (80, 24)),
    ("healthy", (140, 40)),
    ("host-lost", (80, 24)),
    ("gone", (80, 24)),
    ("200-runs", (120, 36)),
)
SCREENS = {
    "compiling": ("compiling", (80, 24), ("enter",)),
    "stalled": ("stalled", (80, 24), ("enter",)),
    "plots": ("healthy", (140, 40), ("enter",)),
    "crashed": ("crash-loop", (80, 24), ("enter",)),
    "incident": ("crash-loop", (100, 40), ("i",)),
    "gpus": ("healthy", (120, 24), ("t",)),
    "large-plots": ("healthy", (120, 36), ("enter", "M")),
    "history": ("healthy", (90, 24), ("enter", "h")),
    "changes": ("healthy", (90, 24), ("enter", "D")),
    "environment": ("healthy", (90, 24), ("enter", "v")),
    "silences": ("crash-loop", (90, 24), ("z", "down")),
    "ask-end": ("healthy", (90, 24), ("t", "K")),
    "ask-why": ("crash-loop", (80, 24), ("r",)),
    "ask-stop": ("healthy", (80, 24), ("s",)),
    "help": ("healthy", (80, 24), ("enter", "question_mark")),
    "groups": ("200-runs", (100, 30), ("g", "o")),
}


@pytest.mark.parametrize(
    ("situation", "size"),
    FLEETS,
    ids=lambda value: "x".join(map(str, value)) if isinstance(value, tuple) else value,
)
def test_the_fleet_looks_as_it_did(
    situation: str, size: tuple[int, int], dashboard: Made, snap_compare: Compare
) -> None:
    """The fleet of each situation."""
    at = 61.0 if situation == "gone" else 0.0
    assert snap_compare(dashboard(situation, at=at), terminal_size=size, run_before=settle)


@pytest.mark.parametrize("name", SCREENS)
def test_a_screen_looks_as_it_did(name: str, dashboard: Made, snap_compare: Compare) -> None:
    """Runs, incidents, GPUs, windows and help, after those keys."""
    situation, size, keys = SCREENS[name]

    async def go(pilot: Pilot[None]) -> None:
        await settle(pilot)
        await press(pilot, *keys)

    assert snap_compare(dashboard(situation), terminal_size=size, run_before=go)


@pytest.mark.parametrize("theme", ["orch-light", "orch-plain"])
def test_a_theme_looks_as_it_did(theme: str, dashboard: Made, snap_compare: Compare) -> None:
    """A crash in the light theme, and in the one without colours."""

    async def go(pilot: Pilot[None]) -> None:
        await settle(pilot)
        pilot.app.theme = theme
        await press(pilot, "enter")

    assert snap_compare(dashboard("crash-loop"), terminal_size=(80, 24), run_before=go)
