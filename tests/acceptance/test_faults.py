"""A daemon that dies at any await of interest: nothing lost, nothing twice, nothing stuck.

Each story leads one run (it fails once, is restarted, finishes) through daemons that die one
after the other, each at the point named for it.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import TmuxCall, XdgFolders
from tests.faults.nursery import Nursery
from tests.faults.points import POINTS, Fault
from tests.faults.story import Stage, inventory
from tests.lab.receiver import Receiver

STORIES = {
    "asked for": ["create:before", "create:after", "apply:before", "apply:after"],
    "launched": [
        *("launch:before", "launch:after", "follow:before", "follow:after"),
        *("append:before", "append:after", "stored:before"),
    ],
    "judged": [
        "pending:before",
        "pending:after",
        "stored:after",
        "verdict:before",
        "verdict:after",
    ],
    "restarted": [
        *("evidence:before", "evidence:after", "done:before", "done:after"),
        *("turn:before", "turn:after", "end:before", "end:after"),
        *("preflight:before", "preflight:after"),
    ],
    "told": [
        *("heads:after", "send:before", "send:after", "delivered:before", "delivered:after"),
        *("send:before", "send:after", "delivered:before"),
    ],
}
EVERY_DECISION = 30
"""More than there are; the walk ends with the run."""


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    """The worker's warm process."""
    with Nursery() as running:
        yield running


@pytest.fixture
def stage(
    nursery: Nursery, receiver: Receiver, xdg: XdgFolders, tmux: TmuxCall, short_folder: Path
) -> Iterator[Stage]:
    """A job that fails once, and no daemon yet."""
    config = short_folder / "inventory.yaml"
    config.write_text(inventory(short_folder))
    (short_folder / "w").mkdir()
    made = Stage(nursery, config, {**os.environ, **receiver.env}, receiver)
    yield made
    made.close()


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_death_at_each_point_loses_and_doubles_nothing(story: list[str], stage: Stage) -> None:
    """Each daemon dies at its point; the run and its alerts are as if none had."""
    for fault in story:
        assert stage.live(Fault.of(fault)), f"{fault} was never reached"
    assert not stage.live(None)
    stage.check()


def test_death_after_every_decision_in_turn(stage: Stage) -> None:
    """Each daemon stores one decision and dies of it: the next one does what follows."""
    deaths = 0
    while stage.live(Fault.of("apply:after")):
        deaths += 1
        assert deaths < EVERY_DECISION, "the run never ended"
    assert deaths >= 5
    stage.check()


def test_every_point_is_met_by_a_story() -> None:
    """A point that no story names would be a promise that nobody keeps."""
    named = {Fault.of(fault).point for story in STORIES.values() for fault in story}
    assert named == set(POINTS)
