"""metrics.jsonl as it grows, and patterns in a log."""

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.core.parse.metrics import MAX_LINE_BYTES, MetricsReader, PatternMetrics

LINES = (
    b'{"t": 1760000000.5, "step": 3, "loss": 5.25, "phase": "train", "lr": 1e-4}\n'
    b'{"t": 1760000001.5, "step": 4, "loss": NaN}\n'
    b'{"phase": "checkpoint"}\n'
)


def test_lines_are_read_with_what_they_say() -> None:
    """What a line does not say is None; every scalar is kept."""
    first, second, third = MetricsReader().feed(LINES)
    assert (first.t, first.step, first.loss, first.phase) == (1760000000.5, 3, 5.25, "train")
    assert first.values["lr"] == 1e-4
    assert second.loss is not None
    assert math.isnan(second.loss)
    assert (third.step, third.loss, third.phase) == (None, None, "checkpoint")


def test_a_loss_that_is_null_in_training_is_no_number() -> None:
    """So the contract writes what JSON has no word for; in another phase there is none to tell."""
    train, evaluated, bare = MetricsReader().feed(
        b'{"step": 3, "loss": null, "phase": "train"}\n'
        b'{"step": 3, "loss": null, "phase": "eval"}\n'
        b'{"step": 3, "loss": null}\n'
    )
    assert train.loss is not None
    assert math.isnan(train.loss)
    assert (evaluated.loss, bare.loss) == (None, None)


@settings(deadline=None)
@given(st.lists(st.integers(min_value=1, max_value=60), max_size=20))
def test_cuts_anywhere_change_nothing(sizes: list[int]) -> None:
    """Bytes arrive as the link brings them."""
    reader, found, at = MetricsReader(), [], 0
    for size in [*sizes, len(LINES)]:
        found += reader.feed(LINES[at : at + size])
        at += size
    assert [line.phase for line in found] == ["train", None, "checkpoint"]
    assert (reader.torn, reader.unknown) == (0, 0)


def test_torn_and_unknown_lines_are_counted_and_passed_over() -> None:
    """Two writers at once, other JSON, other text: the next good line is read all the same."""
    reader = MetricsReader()
    lines = reader.feed(
        b'{"step": 1, "lo{"step": 2}\n'
        b'"only text"\n[1, 2]\n{"nested": {"step": 1}}\n{}\n'
        b"Traceback (most recent call last):\n\n"
        b'{"step": 3}\n'
    )
    assert [line.step for line in lines] == [3]
    assert (reader.torn, reader.unknown) == (2, 4)


def test_a_line_without_an_end_does_not_fill_the_memory() -> None:
    """It is counted once, however long it grows, and what follows it is read."""
    reader = MetricsReader()
    for _ in range(5):
        assert reader.feed(b"x" * MAX_LINE_BYTES) == []
    assert [line.step for line in reader.feed(b'x\n{"step": 9}\n')] == [9]
    assert reader.torn == 1


def test_of_a_flood_the_newest_lines_are_looked_at() -> None:
    """The others are passed over, cut anywhere; what is torn is read once its rest has come."""
    reader = MetricsReader()
    flood = b"".join(b'{"step": %d}\n' % step for step in range(1000))
    assert [line.step for line in reader.feed(flood[:-5], 3)] == [996, 997, 998]
    assert [line.step for line in reader.feed(flood[-5:], 3)] == [999]
    assert [line.step for line in reader.feed(flood[:24], 3)] == [0, 1]


def test_the_end_of_a_line_that_was_too_long_may_be_passed_over() -> None:
    """What follows a flood behind it is read."""
    reader = MetricsReader()
    assert reader.feed(b"x" * (MAX_LINE_BYTES + 1)) == []
    assert [one.step for one in reader.feed(b'x\n{"step": 1}\n{"step": 2}\n', 1)] == [2]
    assert [one.step for one in reader.feed(b'{"step": 3}\n', 1)] == [3]


def test_values_of_the_wrong_type_are_not_taken_for_numbers() -> None:
    """A step that is no whole number, a loss that is text or true, a number beyond a float."""
    reader = MetricsReader()
    raw = b'{"step": 1.5, "loss": "low", "t": true}\n{"step": true, "loss": 1' + b"0" * 400 + b"}\n"
    first, second = reader.feed(raw)
    assert (first.step, first.loss, first.t) == (None, None, None)
    assert (second.step, second.loss) == (None, None)


def test_a_nest_too_deep_for_the_parser_is_a_torn_line() -> None:
    """It must not end the reader."""
    reader = MetricsReader()
    assert reader.feed(b"[" * 200_000 + b"\n") == []
    assert reader.torn == 1


def test_patterns_find_the_newest_value_in_a_line() -> None:
    """The group `value` as a number; punctuation that sticks to it is taken off."""
    patterns = PatternMetrics({"loss": r"loss[=: ]+(?P<value>\S+)", "lr": r"lr=(?P<value>\S+)"})
    assert patterns.read("step 3 loss=5.5, lr=1e-4)") == {"loss": 5.5, "lr": 1e-4}
    assert patterns.read("loss: 3.0 loss: 2.0") == {"loss": 2.0}
    assert math.isnan(patterns.read("loss=nan")["loss"])
    assert patterns.read("loss=pending") == {}
    assert patterns.read("nothing here") == {}


def test_a_group_that_took_no_part_is_no_value() -> None:
    """An optional group in a pattern of the inventory."""
    assert PatternMetrics({"loss": r"loss(=(?P<value>\d+))?"}).read("loss") == {}
