"""The pane's copy: never waited for, newest output first, and what is left out is said."""

import os
from collections.abc import Iterator

import pytest

from orchestrator.probe.pane import KEPT_BYTES, PENDING_BYTES, Pane


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """A pane that nobody reads yet."""
    read, write = os.pipe()
    os.set_blocking(write, False)
    os.set_blocking(read, False)
    yield read, write
    for fd in (read, write):
        try:
            os.close(fd)
        except OSError:
            pass  # closed by the test


def drained(pane: Pane, read: int) -> bytes:
    """Everything the pane shows, with time passing as fast as it likes."""
    shown, now = b"", 0.0
    while (wait := pane.wants(now)) is not None:
        now += wait
        pane.write(now)
        try:
            shown += os.read(read, 1 << 20)
        except BlockingIOError:
            pass
    return shown


def test_output_is_shown_as_it_is(pipe: tuple[int, int]) -> None:
    """Less than what may wait is shown whole."""
    pane = Pane(pipe[1])
    pane.show(b"one\r\n")
    pane.show(b"two\r\n")
    assert drained(pane, pipe[0]) == b"one\r\ntwo\r\n"
    assert pane.dropped_bytes == 0


def test_a_flood_shows_its_end_and_how_much_is_missing(pipe: tuple[int, int]) -> None:
    """Cut at the end of a line; nothing waits beyond the bound."""
    pane = Pane(pipe[1])
    flood = b"".join(b"line %08d\r\n" % i for i in range(100_000))
    for at in range(0, len(flood), 10_000):
        pane.show(flood[at : at + 10_000])
    shown = drained(pane, pipe[0])
    notice, _, rest = shown.partition(b"all are in the log\r\n")
    assert notice.startswith(b"\r\n[orch] %d bytes not shown" % pane.dropped_bytes)
    assert rest == flood[pane.dropped_bytes :]
    assert rest.startswith(b"line ")
    assert KEPT_BYTES - 20 <= len(rest) <= PENDING_BYTES


def test_a_pane_that_takes_nothing_is_not_waited_for(pipe: tuple[int, int]) -> None:
    """A full terminal leaves the bytes where they are."""
    pane = Pane(pipe[1])
    os.write(pipe[1], b"x" * 65536)
    pane.show(b"later")
    pane.write(0.0)
    assert pane.wants(0.0) == 0.0
    assert os.read(pipe[0], 1 << 20) == b"x" * 65536
    assert drained(pane, pipe[0]) == b"later"


def test_a_pane_that_is_gone_takes_no_more(pipe: tuple[int, int]) -> None:
    """After the terminal was taken away nothing is kept for it."""
    pane = Pane(pipe[1])
    os.close(pipe[0])
    pane.show(b"nobody sees this")
    pane.write(0.0)
    assert pane.gone
    pane.show(b"nor this")
    assert pane.wants(0.0) is None


def test_a_flood_is_shown_at_a_rate(pipe: tuple[int, int]) -> None:
    """tmux is given less than it can parse, so that it does not take the program's CPU."""
    pane = Pane(pipe[1])
    pane.show(b"x" * PENDING_BYTES)
    pane.write(10.0)
    wait = pane.wants(10.0)
    assert wait is not None
    assert wait > 0.0
    assert pane.wants(10.0 + wait) == 0.0
