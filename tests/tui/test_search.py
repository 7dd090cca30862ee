"""Searching a log range by range finds what a search of the whole would."""

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from tui import search
from tui.loglines import shown_text
from tui.search import ReadRange

LINES = st.lists(
    st.sampled_from(
        [
            "",
            "error",
            "Error",
            "a\x1b[31merr\x1b[0mor",
            "bar 1%\rerror",
            "tab\terror",
            "é error",
            "x",
        ]
    ),
    max_size=30,
)


def reader(content: bytes, most: int) -> ReadRange:
    """Reads of a log, at most `most` bytes at a time."""
    return lambda offset, size: content[offset : offset + min(size, most)]


def naive(pattern: re.Pattern[str], content: bytes) -> list[int]:
    """Offsets of all lines that match, the slow way."""
    found, at = [], 0
    for raw in content.split(b"\n"):
        if pattern.search(shown_text(raw)):
            found.append(at)
        at += len(raw) + 1
    return found


def last(steps: object) -> int | None:
    """The offset that a search ended with, or None."""
    progress = list(steps)  # type: ignore[call-overload]  # an iterator
    return progress[-1].offset if progress and progress[-1].found else None


@settings(max_examples=60, deadline=None)
@given(LINES, st.integers(1, 40), st.sampled_from(["error", "Err", "^error$", "err.r", "(", "é"]))
def test_down_finds_the_first_match_from_any_line(lines: list[str], most: int, words: str) -> None:
    """From the beginning of every line, downwards, the nearest match is found."""
    content = "\n".join(lines).encode()
    pattern = search.compiled(words)
    found = naive(pattern, content)
    starts = [0] + [at + 1 for at, byte in enumerate(content) if byte == 10]
    for start in starts:
        below = [at for at in found if at >= start and at < len(content)]
        assert last(search.down(pattern, reader(content, most), start)) == (
            below[0] if below else None
        )


@settings(max_examples=60, deadline=None)
@given(LINES, st.integers(1, 40), st.sampled_from(["error", "Err", "^error$", "x"]))
def test_up_finds_the_last_match_before_any_line(lines: list[str], most: int, words: str) -> None:
    """From the beginning of every line, upwards, the nearest match is found."""
    content = "\n".join([*lines, ""]).encode()
    pattern = search.compiled(words)
    found = naive(pattern, content)
    starts = [at + 1 for at, byte in enumerate(content) if byte == 10]
    for start in starts:
        above = [at for at in found if at < start]
        assert last(search.up(pattern, reader(content, most), start)) == (
            above[-1] if above else None
        )


def test_a_match_far_away_in_a_long_log_is_found_both_ways() -> None:
    """Over many ranges, a line is found that lies across the border of two of them."""
    line = b"step 1 loss 2.0 and so on and so on\n"
    before = line * (search.RANGE_BYTES // len(line)) + b"the needle lies here\n"
    content = before + line * (3 * search.RANGE_BYTES // len(line))
    place = before.rindex(b"the needle")
    pattern, read = search.compiled("needle"), reader(content, len(content))
    assert last(search.down(pattern, read, 0)) == place
    assert last(search.up(pattern, read, len(content))) == place


def test_small_letters_match_large_ones_but_not_the_other_way_round() -> None:
    """`error` finds `Error`, not the reverse; what is no expression is taken as it is."""
    assert search.compiled("error").search("Error")
    assert not search.compiled("Error").search("error")
    assert search.compiled("a(b").search("xa(bx")
