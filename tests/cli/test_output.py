"""Words for times, sizes and numbers, and text that can do a terminal no harm."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.cli import output
from orchestrator.cli.check import check_lines
from orchestrator.cli.follow import MAX_PARTIAL_CHARS, Lines
from orchestrator.cli.main import complain
from orchestrator.cli.stop import index_ranges
from orchestrator.core.errors import OrchError

DANGEROUS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0041]"
)
COLOUR = re.compile(r"\x1b\[[0-9;:]*m")
NASTY = st.text(
    alphabet=st.sampled_from("\x1b[]0;m2J\x07\x9b\x9d\r\b\x00\u202e\u200f\u2028Pab\\?\n\t"),
    max_size=60,
)


@given(NASTY | st.text(max_size=60))
def test_harmless_text_holds_nothing_that_a_terminal_obeys(text: str) -> None:
    """No control character but newline and tab is left, whatever the input."""
    assert not DANGEROUS.search(output.harmless(text))


@given(NASTY)
def test_with_colours_only_colours_are_left(text: str) -> None:
    """Besides colours there is nothing, and a colour never runs into the next line."""
    shown = output.harmless(text, colour=True)
    assert not DANGEROUS.search(COLOUR.sub("", shown))
    assert "\x1b" not in shown or shown.endswith("\x1b[0m")


def test_marks_are_not_piled_up() -> None:
    """What script has, stays; a thousand marks on one letter would reach over other lines."""
    assert output.harmless("e\u0323\u0302 e\u0301") == "e\u0323\u0302 e\u0301"
    assert output.harmless("a" + "\u0301" * 1000 + "b") == "a" + "\u0301" * 8 + "b"


def test_a_quoted_line_never_begins_as_one_of_ours(capsys: pytest.CaptureFixture[str]) -> None:
    """A target's text with a newline in it cannot say anything in orch's own name."""
    output.note("ct200 said: x\norch: all is well")
    complain(OrchError("it said: x\norch: all is well", remedy="a\norch: b"))
    said = capsys.readouterr().err.splitlines()
    assert [line for line in said if line.startswith("orch:") and "well" in line] == []
    assert len(said) >= 4


def test_plain_words_stay_as_they_are() -> None:
    """Text in any script passes unchanged."""
    assert output.harmless("größe 大きさ\t1\n") == "größe 大きさ\t1\n"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "-"), (3.21, "3.2 s"), (245, "4m 05s"), (7800, "2h 10m"), (273_600, "3d 4h")],
)
def test_durations_are_short(seconds: float | None, text: str) -> None:
    """Two units at most."""
    assert output.duration(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(1, "1s ago"), (119, "119s ago"), (120, "2m ago"), (90_000, "25h ago")]
)
def test_ages_are_one_word(seconds: int, text: str) -> None:
    """The unit is the largest that leaves two or more."""
    assert output.age(1000.0, 1000.0 + seconds) == text


def test_age_of_nothing_and_of_the_future() -> None:
    """Never seen is a dash; a clock that is ahead gives no negative age."""
    assert output.age(None, 5.0) == "-"
    assert output.age(9.0, 5.0) == "0s ago"


@pytest.mark.parametrize(
    ("amount", "text"),
    [(None, "-"), (0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 * 1024**4, "5.0 TiB")],
)
def test_sizes(amount: int | None, text: str) -> None:
    """Powers of 1024, one digit."""
    assert output.size(amount) == text


def test_numbers_keep_steps_whole_and_losses_short() -> None:
    """A step is a count, a loss has four digits."""
    assert [output.number(value) for value in (120, 5.321512, None)] == ["120", "5.322", "-"]


@pytest.mark.parametrize(
    ("indexes", "text"), [([0, 1, 2, 3], "0-3"), ([3, 0, 1], "0-1,3"), ([5], "5"), ([], "")]
)
def test_gpu_ranges(indexes: list[int], text: str) -> None:
    """Neighbours are joined."""
    assert index_ranges(indexes) == text


def test_what_many_checks_say_is_said_once() -> None:
    """Two targets on a host whose key is unknown: the second names the first; one remedy."""
    unknown = {
        "ok": False,
        "critical": True,
        "text": "The key of far is unknown.",
        "remedy": "Do X.",
    }
    quoted = {
        **unknown,
        "text": "not in full: The key of far is unknown. Do X.",
        "remedy": "Let Y.",
    }
    lines = check_lines(
        [{**unknown, "name": "a"}, {**unknown, "name": "b"}, {**quoted, "name": "host"}]
    )
    assert lines == [
        "FAIL  a: The key of far is unknown.",
        "      Do X.",
        "FAIL  b: the same as a",
        "FAIL  host: not in full: the same as a",
        "      Let Y.",
    ]


def test_lines_come_whole_from_pieces() -> None:
    """A line in pieces is shown once, as it stood in the end."""
    lines = Lines(colour=False)
    assert lines.feed("a\nb") == ["a"]
    assert lines.feed("c\r1%\r99%") == []
    assert lines.feed("\n\nlast") == ["99%", ""]
    assert lines.close() == ["last"]
    assert lines.close() == []


def test_progress_bar_without_an_end_costs_no_memory() -> None:
    """Only the newest picture of a bar that never ends is kept."""
    lines = Lines(colour=False)
    for number in range(40):
        assert lines.feed(f"\r{number}% " + "#" * 10_000) == []
    assert len(lines._rest) <= MAX_PARTIAL_CHARS
    assert lines.close()[0].startswith("39%")
