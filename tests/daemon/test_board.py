"""The board: views that are made when somebody looks, and a cursor that tells what changed."""

import asyncio
from functools import partial

from orchestrator.daemon.board import Board
from orchestrator.testing import ManualClock

DEADLINE_S = 30.0


def test_a_view_is_made_when_somebody_looks() -> None:
    """A thousand changes that nobody looks at cost no view, and the look shows the newest."""
    board, made = Board(ManualClock()), list[int]()

    def make(number: int) -> dict[str, int]:
        made.append(number)
        return {"number": number}

    for number in range(1000):
        board.renew("runs", "a", partial(make, number))
    assert made == []
    assert board.view("runs", "a") == {"number": 999}
    assert board.views("runs") == [{"number": 999}]
    assert made == [999]


def test_what_is_put_later_counts() -> None:
    """A view that is put, or dropped, is not overwritten by an older one that was still due."""
    board = Board(ManualClock())
    board.renew("runs", "a", lambda: "old")
    board.put("runs", "a", "new")
    board.renew("runs", "b", lambda: "old")
    board.drop("runs", "b")
    assert board.views("runs") == ["new"]


def test_an_equal_view_is_no_change() -> None:
    """The cursor stands still where a view was made anew and is what it was."""
    board = Board(ManualClock())
    board.put("runs", "a", {"step": 1})
    before = board.cursor
    board.renew("runs", "a", lambda: {"step": 1})
    assert board.cursor == before
    board.renew("runs", "a", lambda: {"step": 2})
    assert board.cursor == before + 1
    assert board.views("runs", since=before) == [{"step": 2}]


async def test_whoever_follows_is_told() -> None:
    """A client that waits for changes is woken by a view that is due."""
    clock = ManualClock()
    board = Board(clock)
    changes = board.changes(board.cursor)
    told = asyncio.ensure_future(anext(changes))
    await asyncio.sleep(0)
    board.renew("runs", "a", lambda: "new")
    async with asyncio.timeout(DEADLINE_S):
        while not told.done():
            await clock.advance(0.1)
    assert board.views("runs", since=told.result()) == ["new"]
    await changes.aclose()
