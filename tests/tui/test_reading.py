"""Reading a log by ranges shows what reading the whole would, wherever the eye goes."""

from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.api.client import LogPart
from tui import reading as reading_module
from tui.loglines import LogWindow
from tui.reading import Reading

PIECES = st.lists(st.binary(max_size=30).map(lambda raw: raw.replace(b"\x00", b"\n")), max_size=12)


class Log:
    """A stored log, and a reader that is fed from it."""

    def __init__(self, content: bytes, *, height: int = 10, width: int = 80) -> None:
        self.content = content
        self.reading = Reading()
        self.reading.height, self.reading.width = height, width
        self.reading.told(1, len(content))
        self.fetched = 0

    def feed(self) -> None:
        """Give all that is wanted."""
        while (want := self.reading.wanted()) is not None:
            chunk = self.content[want.offset : want.offset + want.size]
            self.fetched += len(chunk)
            went_on = self.reading.take(want, LogPart(chunk, want.offset, len(self.content), 1))
            assert len(self.reading.window.lines) <= 20_000
            if not went_on:
                break

    def texts(self) -> list[str]:
        """What is on the screen."""
        return [piece.text for piece in self.reading.rows()]


def numbered(count: int, pad: int = 0) -> bytes:
    """Lines that say their number."""
    return b"".join(b"line %d%s\n" % (number, b"." * pad) for number in range(count))


@settings(max_examples=60, deadline=None)
@given(PIECES)
def test_lines_do_not_depend_on_how_the_bytes_came(pieces: list[bytes]) -> None:
    """Any cut of the same bytes gives the same lines at the same offsets."""
    by_pieces, at_once = LogWindow(), LogWindow()
    for piece in pieces:
        by_pieces.append(piece)
    at_once.append(b"".join(pieces))
    assert by_pieces.lines == at_once.lines
    assert by_pieces.end == at_once.end == sum(map(len, pieces))


@settings(max_examples=60, deadline=None)
@given(PIECES, st.integers(0, 100))
def test_prepending_gives_the_lines_that_appending_would(pieces: list[bytes], cut: int) -> None:
    """A window that grew upwards holds what one that grew downwards does."""
    content = b"".join(pieces)
    cut = content.find(b"\n", min(cut, len(content))) + 1
    downwards, upwards = LogWindow(), LogWindow()
    downwards.append(content)
    upwards.reset(cut)
    upwards.append(content[cut:])
    upwards.prepend(content[:cut], 0)
    assert [(one.offset, one.text) for one in upwards.lines] == [
        (one.offset, one.text) for one in downwards.lines
    ]


def test_it_opens_at_the_end_and_fetches_little_of_a_long_log() -> None:
    """A log of many megabytes opens with its last lines, a few hundred kilobytes fetched."""
    log = Log(numbered(400_000, pad=40))
    log.feed()
    assert log.texts()[-1].startswith("line 399999.")
    assert log.fetched <= 4 * reading_module.CHUNK_BYTES


def test_scrolling_up_shows_every_line_once_and_in_order() -> None:
    """Line by line from the end to the beginning, none is missed and none comes twice."""
    count = 30_000
    log = Log(numbered(count))
    log.feed()
    seen = log.texts()[::-1]
    while log.reading.place() > 0:
        log.reading.scroll(-log.reading.height)
        log.feed()
        seen += log.texts()[::-1]
    numbers = list(dict.fromkeys(seen))
    assert numbers == [f"line {number}" for number in range(count - 1, -1, -1)]


def test_scrolling_back_down_to_the_end_follows_again() -> None:
    """Up stops following; down to the last line starts it, and new lines come into sight."""
    log = Log(numbered(100))
    log.feed()
    log.reading.scroll(-15)
    assert not log.reading.following
    log.reading.scroll(15)
    assert log.reading.following
    log.content += b"a new one\n"
    log.reading.told(1, len(log.content))
    log.feed()
    assert log.texts()[-1] == "a new one"


def test_what_is_read_stays_in_place_while_the_log_grows() -> None:
    """Paused, the lines on the screen are the same after new ones came."""
    log = Log(numbered(1000))
    log.feed()
    log.reading.scroll(-100)
    before = log.texts()
    log.content += numbered(1000)
    log.reading.told(1, len(log.content))
    log.feed()
    assert log.texts() == before


def test_a_jump_far_away_loads_around_the_place_and_marks_it() -> None:
    """A byte in the middle of a long log comes into sight without the rest of it."""
    log = Log(numbered(300_000, pad=40))
    log.feed()
    fetched = log.fetched
    offset = log.content.index(b"line 100000.")
    log.reading.jump(offset)
    log.feed()
    at = [text.partition(".")[0] for text in log.texts()].index("line 100000")
    assert at == log.reading.height // 3
    assert log.fetched - fetched <= 3 * reading_module.CHUNK_BYTES


def test_a_reader_left_far_behind_jumps_instead_of_reading_all() -> None:
    """Following a log that grew by many megabytes at once, only its end is fetched."""
    log = Log(numbered(100))
    log.feed()
    fetched = log.fetched
    log.content += numbered(400_000, pad=40)
    log.reading.told(1, len(log.content))
    log.feed()
    assert log.texts()[-1].startswith("line 399999.")
    assert log.fetched - fetched <= 4 * reading_module.CHUNK_BYTES


@settings(max_examples=30, deadline=None)
@given(st.integers(5, 60), st.integers(2, 20), st.lists(st.integers(-30, 30), max_size=15))
def test_the_screen_is_full_of_neighbouring_rows_wherever_one_scrolls(
    width: int, height: int, moves: list[int]
) -> None:
    """However it is scrolled, the rows on the screen follow one another in the wrapped log."""
    content = b"".join(b"%d:%s\n" % (number, b"x" * (number % 50)) for number in range(200))
    log = Log(content, height=height, width=width)
    log.feed()
    whole = Log(content, height=100_000, width=width)
    whole.feed()
    everything = whole.texts()
    for move in moves:
        log.reading.scroll(move)
        log.feed()
        rows = log.reading.rows()
        assert len(rows) == height
        places = [(row.at, row.sub) for row in rows]
        assert places == sorted(places)
        joined = [row.text for row in rows]
        assert any(
            everything[at : at + height] == joined for at in range(len(everything) - height + 1)
        )


def test_a_rank_alone_and_errors_alone() -> None:
    """Only lines of that rank are shown, or only those at that level, frames included."""
    log = Log(
        b"[rank0]: step 1\n[rank1]: step 1\nWARNING:root:low memory\n"
        b'Traceback (most recent call last):\n  File "a.py", line 1, in f\nValueError: no\ndone\n'
    )
    log.feed()
    log.reading.rank = 1
    assert log.texts() == ["[rank1]: step 1"]
    log.reading.rank, log.reading.level = None, "E"
    assert log.texts() == [
        "Traceback (most recent call last):",
        '  File "a.py", line 1, in f',
        "ValueError: no",
    ]
    log.reading.level = "W"
    assert log.texts()[0] == "WARNING:root:low memory"


def test_a_log_that_is_shorter_than_was_said_is_shown_all_the_same() -> None:
    """What is read of a log knows its size better than what is told of it."""
    log = Log(numbered(50))
    for said in (10, 5_000_000):
        log.reading.told(said, said)
        log.feed()
        assert log.texts()[-1] == "line 49"


def test_a_new_attempt_begins_a_new_log() -> None:
    """What was read of attempt 1 is left when attempt 2 writes."""
    log = Log(b"old\n")
    log.feed()
    log.content = b"new\n"
    log.reading.told(2, 4)
    log.feed()
    assert log.texts() == ["new"]
