"""Rules of the inventory that expect something of the log over time, in HyperPod's words."""

import pytest

from orchestrator.core.detect.signatures.rules import parse_rule
from orchestrator.core.model import WatchPolicy
from orchestrator.core.watch.vigil import Vigil

START = 1_000.0


def watching(**rule: object) -> Vigil:
    """A watch with one rule, from the run's start on."""
    made = parse_rule({"name": "steps", "pattern": r"step \d+ speed (?P<value>[\d.]+)", **rule})
    return Vigil(WatchPolicy(), START, START, rules=(made,))


def told(watch: Vigil, now: float) -> list[str]:
    """Texts of what is found now; each is the same finding."""
    found = watch.look(now)
    assert {one.signature for one in found} <= {"expectation_failed"}
    return [one.text for one in found]


def test_a_first_line_that_does_not_come_is_told_once() -> None:
    """`start_within`: HyperPod's expectedStartCutOffInSeconds."""
    watch = watching(start_within=600)
    watch.text(b"loading\n", START + 500)
    assert told(watch, START + 599) == []
    assert told(watch, START + 601) == ["steps: no line within 600 s of the start"]
    assert told(watch, START + 700) == []


def test_each_next_line_has_to_come_until_it_is_over() -> None:
    """`every` and `until`; lines are cut anywhere."""
    watch = watching(every=300, until="training finished")
    watch.text(b"step 1 sp", START + 10)
    watch.text(b"eed 9.5\r\nst", START + 20)
    assert told(watch, START + 319) == []
    assert told(watch, START + 321) == ["steps: no next line within 300 s"]
    over = watching(every=300, until="training finished")
    over.text(b"step 1 speed 9.5\ntraining finished\n", START + 10)
    assert told(over, START + 9_000) == []


@pytest.mark.parametrize(("speeds", "says"), [((79, 90, 79, 79), None), ((79, 78, 77), "is 77")])
def test_numbers_have_to_be_bad_so_many_times_in_a_row(
    speeds: tuple[int, ...], says: str | None
) -> None:
    """`threshold`: what is named there is bad."""
    watch = watching(threshold={"op": "lteq", "value": 80, "points": 3})
    for number, speed in enumerate(speeds):
        watch.text(b"step %d speed %d\n" % (number, speed), START + number)
    found = told(watch, START + 10)
    assert found == ([f"steps: value {says} (lteq 80), 3 times in a row"] if says else [])


def test_what_was_not_seen_is_not_late() -> None:
    """The link was down for an hour, and with it the view of the log."""
    watch = watching(every=300)
    watch.text(b"step 1 speed 9\n", START)
    watch.link(seen=False, at=START + 100)
    assert told(watch, START + 200) == []
    watch.link(seen=True, at=START + 3_700)
    assert told(watch, START + 3_900) == []
    assert told(watch, START + 4_001) == ["steps: no next line within 300 s"]


def test_a_daemon_that_takes_a_run_up_claims_nothing_of_its_beginning() -> None:
    """The first line may have come before; the next ones are expected from now on."""
    made = parse_rule({"name": "steps", "pattern": "step", "start_within": 600, "every": 3_000})
    watch = Vigil(WatchPolicy(), START, START + 5_000, has_output=True, rules=(made,))
    assert told(watch, START + 7_900) == []
    assert told(watch, START + 8_100) == ["steps: no next line within 3000 s"]
