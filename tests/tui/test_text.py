"""Words for times, sizes and small pictures; remote text that can do no harm."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from tui import text

OBEYED = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]")
NASTY = st.text(alphabet=st.sampled_from("\x1b[]0;m2J\x07\x9b\x9d\r\b\x00\u202e\u200bPab\\\n\t界"))


@settings(max_examples=60, deadline=None)
@given(NASTY | st.text(max_size=60))
def test_harmless_text_holds_nothing_that_a_terminal_obeys(said: str) -> None:
    """Neither escapes in any form, nor what turns a line around, nor what is not seen."""
    assert not OBEYED.search(text.harmless(said))


@settings(max_examples=60, deadline=None)
@given(NASTY.map(text.harmless), st.integers(0, 30), st.booleans())
def test_a_fitted_text_takes_its_cells_exactly(said: str, width: int, right: bool) -> None:
    """Cut or filled, wide characters or not, it is as wide as asked."""
    assert cell_len(text.fit(said, width, right=right)) == width


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet="ab界 é"), st.integers(2, 20))
def test_pieces_fit_and_are_the_whole(said: str, width: int) -> None:
    """Pieces of a line are no wider than asked, and together they are the line."""
    pieces = text.chop(said, width)
    assert "".join(pieces) == said
    assert all(cell_len(piece) <= width for piece in pieces)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(None, "-"), (0, "0s"), (119, "119s"), (120, "2m"), (7_199, "119m"), (7_200, "2h")],
)
def test_ages_are_one_short_word(seconds: float | None, said: str) -> None:
    """Seconds up to two minutes, minutes up to two hours, and so on."""
    assert text.age(seconds) == said


def test_a_sparkline_shows_its_newest_values_and_marks_what_is_no_number() -> None:
    """The lowest is the lowest block, NaN is `!`, and one value alone is no course."""
    assert text.sparkline([1.0, 2.0, float("nan"), 8.0], 3) == "▁!█"
    assert text.sparkline([1.0], 8) == ""


def test_a_block_never_hides_the_difference_between_nothing_and_little() -> None:
    """Nothing, little, all, and not known are four different characters."""
    assert [text.block(share) for share in (0.0, 0.01, 1.0, None)] == ["·", "▁", "▇", "?"]
