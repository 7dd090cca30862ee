"""A daemon that dies at any await of interest: nothing lost, nothing twice, nothing stuck.

Each story leads one run (it fails once, is restarted, finishes) through daemons that die one
after the other, each at the point named for it.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.probe import procfs
from tests.conftest import TmuxCall, XdgFolders
from tests.faults.nursery import Nursery
from tests.faults.points import POINTS, Fault
from tests.faults.story import LOG_NAME, Stage, inventory
from tests.lab.receiver import Receiver

STORIES = {
    "asked for": [
        "take:before",
        "take:after",
        "create:before",
        "create:after",
        "apply:before",
        "apply:after",
    ],
    "looked at": ["look:before"],
    "launched": [
        *("launch:before", "launch:after", "follow:before", "follow:after"),
        *("append:before", "append:after", "stored:before"),
    ],
    "judged": [
        "pending:before",
        "pending:after",
        "stored:after",
        "persist:before",
        "persist:after",
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
STOPPED = {
    "while it runs": [
        *(
            "word:before",
            "word:after",
            "apply:before",
            "apply:after",
            "end:before",
            "end:after",
            "verdict:before",
        ),
        *("verdict:after", "apply:before", "apply:after"),
    ],
    "in its back-off": ["word:after", "apply:before", "apply:after", "end:before", "end:after"],
}
REBUILT = ["rebuild:before", "rebuild:after", "follow:before", "append:before"]
STEPS = "-m played steps --count 0 --pause 0.2"
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


@pytest.mark.parametrize("once_more", ["launch:before:3", "evidence:before:2", "turn:before:2"])
def test_nothing_is_done_more_often_than_it_was_decided(once_more: str, stage: Stage) -> None:
    """Two launches, one look for evidence, one turn: a daemon that dies of one more lives on."""
    assert not stage.live(Fault.of(once_more))
    stage.check()


@pytest.mark.parametrize("when", STOPPED)
def test_death_over_a_stop(when: str, stage: Stage, receiver: Receiver) -> None:
    """However often a daemon dies of it, a run that a person stops is stopped, once."""
    backs_off = when == "in its back-off"
    text = stage.config.read_text().replace("backoff: 100ms", "backoff: 1h")
    stage.config.write_text(text if backs_off else text.replace("-m played infra --fail 1", STEPS))
    stage.start(None)
    stage.until(stage.runs, stage.ask)
    stage.until(lambda: stage.runs()[0]["state"] == ("backoff" if backs_off else "running"))
    for fault in STOPPED[when]:
        stage.start(Fault.of(fault))
        # The verdict may come while the stop still waits for what is left, or after it.
        stage.until(lambda: stage.gone() or stage.done(), stage.ask_to_stop)
    stage.start(None)
    stage.until(stage.done)
    run = stage.runs()[0]
    assert (run["state"], run["attempt"]) == ("stopped", 1)
    told = ["firing"] if backs_off else []
    assert [one.json["status"] for one in receiver.received] == told
    places = [procfs.environment(one.pid).get("ORCH_RUN_DIR") for one in procfs.every()]
    assert run["directory"] not in places


@pytest.mark.parametrize("fault", ["word:after", "apply:before"])
def test_a_stop_that_its_daemon_dies_of_is_done_by_the_next(fault: str, stage: Stage) -> None:
    """Asked for once, and decided on by nobody: it was stored before anything else."""
    text = stage.config.read_text()
    stage.config.write_text(text.replace("-m played infra --fail 1", STEPS))
    stage.start(None)
    stage.until(stage.runs, stage.ask)
    stage.until(lambda: stage.runs()[0]["state"] == "running")
    stage.start(Fault.of(fault))
    stage.until(stage.runs)
    stage.ask_to_stop()
    stage.until(stage.gone)
    stage.start(None)
    stage.until(stage.done)
    (run,) = stage.runs()
    assert (run["state"], run["attempt"]) == ("stopped", 1)
    places = [procfs.environment(one.pid).get("ORCH_RUN_DIR") for one in procfs.every()]
    assert run["directory"] not in places


def test_death_while_a_lost_run_comes_back(stage: Stage) -> None:
    """Each daemon asks again; the run is there once, with each of its bytes, and finishes."""
    text = stage.config.read_text()
    stage.config.write_text(text.replace("-m played infra --fail 1", STEPS))
    stage.start(None)
    stage.until(stage.runs, stage.ask)
    stage.until(lambda: stage.runs()[0]["log_bytes"] > 0)
    stage.close()
    for path in stage.location.state_folder.glob("orch.db*"):
        path.unlink()
    for fault in REBUILT:
        stage.start(Fault.of(fault))
        stage.until(stage.gone)
    stage.start(None)
    stage.until(lambda: stage.runs() and stage.runs()[0]["state"] == "running")
    (run,) = stage.runs()
    stage.ask_to_stop()
    stage.until(stage.done)
    written = (Path(run["directory"]) / "attempt-1" / LOG_NAME).read_bytes()
    assert stage.client.log(run["id"]).content == written
    assert (run["number"], run["attempt"]) == (1, 1)


def test_every_point_is_met_by_a_story() -> None:
    """A point that no story names would be a promise that nobody keeps."""
    stories = [*STORIES.values(), *STOPPED.values(), REBUILT]
    named = {Fault.of(fault).point for story in stories for fault in story}
    assert named == set(POINTS)
