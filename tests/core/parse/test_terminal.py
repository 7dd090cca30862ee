"""Lines as a person saw them, and what stands in front of them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.core.parse.terminal import MAX_SEGMENTS, clean, printable, read_prefix

TEXT = '  File "/srv/a.py", line 3, in f'


@pytest.mark.parametrize(
    ("prefix", "rank", "key", "level"),
    [
        ("[rank1]: ", 1, "[rank1]", ""),
        ("[default3]:", 3, "[default3]", ""),
        ("[3]: ", 3, "[3]", ""),
        ("3: ", 3, "3", ""),
        ("rank2| ", 2, "rank2", ""),
        ("[1,5]<stderr>:", 5, "[1,5]<stderr>", ""),
        ("(RayTrainWorker pid=12, ip=10.0.0.2) ", None, "(RayTrainWorker pid=12, ip=10.0.0.2)", ""),
        ("trainer-1  | ", None, "trainer-1", ""),
        ("2026-11-29T19:00:00.123Z ", None, "", ""),
        ("2026-11-29 19:00:00,123 ERROR root: ", None, "", "E"),
        ("[2026-11-29 19:00:00,123][stderr][ERROR] - ", None, "", "E"),
        ("W1129 19:00:00.123000 85 torch/_dynamo/x.py:1] [0/0] ", None, "", "W"),
        ("[rank3]:[E1129 12:00:00.1 ProcessGroupNCCL.cpp:12] [Rank 3] ", 3, "[rank3]", "E"),
        ("ERROR:root:", None, "", "E"),
    ],
)
def test_prefix_is_told_from_the_text(prefix: str, rank: int | None, key: str, level: str) -> None:
    """Rank, speaker and level are read, and the text keeps its own indentation."""
    found = read_prefix(prefix + TEXT.lstrip(" ") if prefix.endswith(":") else prefix + "x")
    assert (found.rank, found.key, found.level) == (rank, key, level)
    assert found.width == len(prefix)


def test_level_in_its_column_is_read_where_the_time_is_left_out() -> None:
    """rich's handler prints the time once for a second; the lines below begin with blanks."""
    line = "                    ERROR    batch 4 is broken         train.py:8"
    prefix = read_prefix(line)
    assert (prefix.level, line[prefix.width :][:7]) == ("E", "batch 4")
    first = "[11/30/26 01:37:33] INFO     step 0 loss 2.000        train.py:5"
    assert read_prefix(first).level == "I"
    assert read_prefix(" " * 12 + "errors = []").width == 0


def test_indentation_behind_a_prefix_is_kept() -> None:
    """A frame behind a rank tag is still a frame."""
    line = "[rank1]: " + TEXT
    assert line[read_prefix(line).width :] == TEXT


@pytest.mark.parametrize("line", [TEXT, "RuntimeError: x", "[0]:", "", "Traceback (most recent"])
def test_plain_text_has_no_prefix(line: str) -> None:
    """Nothing is taken from a line that has no prefix, a table's row number least of all."""
    assert read_prefix(line).width == 0


def test_redrawn_bar_keeps_the_first_and_the_newest() -> None:
    """A bar drawn a thousand times in one line costs no more than a few texts."""
    raw = b"".join(b"\r %d%%|##  | %d/1000 [00:01<00:02]" % (i // 10, i) for i in range(1000))
    texts = clean(raw + b"\r\n")
    assert len(texts) == MAX_SEGMENTS
    assert "999/1000" in texts[-1]


def test_text_behind_a_bar_is_what_counts() -> None:
    """What was printed right behind an unfinished bar stands alone."""
    raw = b"\r 37%|###7  | 370/1000 [00:12<00:21, 29.9it/s]Traceback (most recent call last):\r\n"
    assert clean(raw)[-1] == "Traceback (most recent call last):"


@settings(deadline=None)
@given(st.binary(max_size=400))
def test_nothing_that_moves_a_cursor_is_left(raw: bytes) -> None:
    """Whatever comes, no control character but a tab remains."""
    for text in clean(raw):
        assert not any(ord(char) < 32 and char != "\t" for char in text)
        assert "\x7f" not in text
        assert "\x1b" not in printable(text)
