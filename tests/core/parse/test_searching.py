"""Searching a log block by block finds what a search of the whole would."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.core.parse import searching
from orchestrator.core.parse.searching import Search, shown_text
from orchestrator.core.patterns import Pattern

LINES = st.lists(
    st.sampled_from(
        [
            "",
            "error",
            "Error",
            "a\x1b[31merr\x1b[0mor",
            "bar 1%\rerror",
            "tab\terror",
            "error  ",
            " 50%|##   | 1/2 [00:01<00:01, 1.0it/s] error",
            "é error",
            "x",
        ]
    ),
    max_size=30,
)
WORDS = st.sampled_from(
    ["error", "Err", "^error$", "err.r", "(", "é", "x*", r"\Aerror\Z", r"[^x]error", r"\berr", "x"]
)


def naive(pattern: Pattern, content: bytes) -> list[int]:
    """Offsets of all lines that match, the slow way."""
    found, at = [], 0
    for raw in content.removesuffix(b"\n").split(b"\n"):
        if content and pattern.search(shown_text(raw)):
            found.append(at)
        at += len(raw) + 1
    return found


def pieces(content: bytes, start: int, end: int, most: int) -> list[tuple[int, bytes]]:
    """The bytes from start to end, at most `most` at a time."""
    return [(at, content[at : min(at + most, end)]) for at in range(start, end, most)]


def last(steps: object) -> int | None:
    """The offset that a search ended with, or None."""
    progress = list(steps)  # type: ignore[call-overload]  # an iterator
    return progress[-1].offset if progress and progress[-1].found else None


@settings(max_examples=150, deadline=None)
@given(LINES, st.integers(1, 40), WORDS)
def test_down_finds_the_first_match_from_any_line(lines: list[str], most: int, words: str) -> None:
    """From the beginning of every line, downwards, the nearest match is found."""
    content = "\n".join(lines).encode()
    look, found = Search(words), naive(searching.compiled(words), content)
    starts = [0] + [at + 1 for at, byte in enumerate(content) if byte == 10]
    for start in starts:
        below = [at for at in found if at >= start and at < len(content)]
        parts = pieces(content, start, len(content), most)
        assert last(searching.down(look, parts)) == (below[0] if below else None)
        assert [at for block in searching.every(look, parts) for at in block] == below


@settings(max_examples=150, deadline=None)
@given(LINES, st.integers(1, 40), WORDS)
def test_up_finds_the_last_match_before_any_line(lines: list[str], most: int, words: str) -> None:
    """From the beginning of every line, upwards, the nearest match is found."""
    content = "\n".join([*lines, ""]).encode()
    look, found = Search(words), naive(searching.compiled(words), content)
    starts = [at + 1 for at, byte in enumerate(content) if byte == 10]
    for start in starts:
        above = [at for at in found if at < start]
        parts = pieces(content, 0, start, most)[::-1]
        assert last(searching.up(look, parts)) == (above[-1] if above else None)


def test_a_match_far_away_in_a_long_log_is_found_both_ways() -> None:
    """Over many blocks, a line is found that lies across the border of two parts."""
    line = b"step 1 loss 2.0 and so on and so on\n"
    before = line * (searching.BLOCK_BYTES // len(line)) + b"the needle lies here\n"
    content = before + line * (3 * searching.BLOCK_BYTES // len(line))
    place = before.rindex(b"the needle")
    parts = pieces(content, 0, len(content), place + 5)
    assert last(searching.down(Search("needle"), parts)) == place
    assert last(searching.up(Search("needle"), parts[::-1])) == place


def test_a_hole_ends_a_line_and_the_offsets_go_on_behind_it() -> None:
    """What lies on the two sides of lost bytes is not one line."""
    parts = [(0, b"one\nhalf of a nee"), (100, b"dle\nthe needle\n")]
    assert last(searching.down(Search("needle"), parts)) == 104
    assert last(searching.up(Search("needle"), parts[::-1])) == 104
    assert last(searching.up(Search("half"), parts[::-1])) == 4


def test_small_letters_match_large_ones_but_not_the_other_way_round() -> None:
    """`error` finds `Error`, not the reverse; what is no expression is taken as it is."""
    assert searching.compiled("error").search("Error")
    assert not searching.compiled("Error").search("error")
    assert searching.compiled("a(b").search("xa(bx")


@pytest.mark.parametrize("words", [r"(?=needle)n", r"(e)\1", "(?<!x)needle", "e{1001}"])
def test_what_no_quick_search_can_do_is_taken_as_words(words: str) -> None:
    """Looking around and back, and great repeats, are found as they are written."""
    assert list(Search(words).matches(b"needle\n" + words.encode() + b"\n")) == [7]


@pytest.mark.parametrize("words", ["(a+)+$", "(a|a)+$", "((?:a+|b){2,})*d", "(?:(a+))*$"])
def test_search_that_could_be_tried_for_ever_ends(words: str) -> None:
    """One line of many letters would have stopped the daemon, and the dashboard that marks it."""
    line = b"a" * 16_000 + b"!\n"
    assert list(Search(words).matches(line + b"d\n" + b"aad a\n"))[-1] > len(line)
