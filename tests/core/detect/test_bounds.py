"""What the reading of a log holds, whatever its lines are made up of: each bound by itself."""

import pytest

from orchestrator.core.detect.engine import HELD_BYTES, MAX_TOLD, Engine
from orchestrator.core.detect.notes import MAX_LINES, MAX_SIGHTINGS, Notes
from orchestrator.core.detect.sighting import Line, Sighting, Spoken
from orchestrator.core.detect.weave import MAX_OF_ONE, MAX_OPEN, MAX_TWINS, Weaver
from orchestrator.core.findings import Finding, Role
from orchestrator.core.parse.stack_parts import Kind, Offer
from orchestrator.core.parse.terminal import MAX_LINE_CHARS, clean, read_prefix
from orchestrator.core.parse.traceback import MAX_STRANGERS, Block

HEAD = "Traceback (most recent call last):"
FRAME = '  File "/srv/app/train.py", line 88, in step'
CRASH = f"{HEAD}\n{FRAME}\n    out = model(batch)\nKeyError: 1\n".encode()


@pytest.mark.parametrize(
    ("speakers", "most"), [(1, MAX_OF_ONE), (2 * MAX_OPEN, MAX_OPEN)], ids=["one", "many"]
)
def test_stacks_without_end_are_open_in_bounds(speakers: int, most: int) -> None:
    """Of one rank or of all: the oldest ends then, and none is lost."""
    weaver, closed, text = Weaver(), 0, ""
    for number in range(2 * MAX_OPEN):
        text = f"[rank{number % speakers}]: {HEAD}"
        _, ended = weaver.feed(Line(number, 0, text, read_prefix(text)))
        closed += len(ended)
    assert (len(weaver.open), closed) == (most, 2 * MAX_OPEN - most)
    looked_at = weaver._candidates(Line(0, 0, text, read_prefix(text)))
    assert len(looked_at) == min(most, 2 * MAX_OPEN // speakers, MAX_TWINS)


@pytest.mark.parametrize("kind", [Kind.PYTHON, Kind.GROUP, Kind.RICH, Kind.LOOSE])
def test_a_stack_that_others_talk_over_ends(kind: Kind) -> None:
    """Lines of others may stand between two of its own, but not without end."""
    block = Block(kind)
    block.offer(FRAME)
    said = [block.offer(f"step {number}") for number in range(MAX_STRANGERS + 2)]
    assert said[0] is Offer.PASSED
    assert said[-1] is Offer.ENDED


def test_notes_of_a_log_are_the_first_and_the_newest() -> None:
    """As many findings and lines as there may be, and the first of a signature however late."""
    notes, many = Notes(), 3 * MAX_LINES
    for number in range(many):
        notes.say(Spoken(number, "", "", "x"))
        notes.keep(Sighting(Finding(signature="a", role=Role.ROOT, line=number, text="x")))
    notes.keep(Sighting(Finding(signature="b", role=Role.ROOT, line=many, text="x")))
    lines = [one.finding.line for one in notes.sightings]
    newest = range(many - MAX_SIGHTINGS, many)
    assert lines == [*range(MAX_SIGHTINGS), many, *newest]
    assert [one.number for one in notes.said] == [*range(MAX_LINES), *range(2 * MAX_LINES, many)]


def test_what_was_told_in_silences_is_remembered_in_bounds() -> None:
    """A job that thinks after each of its thousands of dead threads."""
    engine = Engine()
    for number in range(MAX_TOLD + 200):
        engine.feed(b"Exception in thread d-%d:\n" % number + CRASH)
        engine.quiet()
    assert len(engine._told) == MAX_TOLD


def test_what_waits_for_the_budget_is_held_in_bounds() -> None:
    """Of a flood, parts are read once so much has come together; the rest is let go."""
    engine, most = Engine(), 0
    for _ in range(3 * HELD_BYTES // len(CRASH * 10_000)):
        engine.feed(CRASH * 10_000)
        most = max(most, sum(map(len, engine._held)))
    assert HELD_BYTES // 2 < most < HELD_BYTES


def test_a_line_is_read_up_to_its_bound() -> None:
    """However often it is drawn anew: what comes after so many bytes is not looked at."""
    drawn = b"a\r" * (4 * MAX_LINE_CHARS)
    assert clean(drawn[:-2] + b"b")[-1] == "b"
    assert clean(drawn + b"b")[-1] == "a"
