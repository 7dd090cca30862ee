"""The plan of the next step: begun while this one is used, by one thread, errors kept."""

import threading

import pytest
import torch

from trainer.ahead import Ahead
from trainer.staging import ALIGN, pack


def test_the_next_item_is_made_while_this_one_is_in_use() -> None:
    """Taking item n begins item n + 1, in a thread that is not the caller's."""
    made: list[int] = []
    begun = threading.Event()

    def make(number: int) -> tuple[int, int]:
        made.append(number)
        if number == 6:
            begun.set()
        return number, threading.get_ident()

    ahead = Ahead(make)
    number, thread = ahead.take(5)
    assert begun.wait(30)
    assert number == 5
    assert thread != threading.get_ident()
    assert ahead.take(6) == (6, thread)
    assert ahead.take(20) == (20, thread)
    ahead.close()
    assert made[:3] == [5, 6, 7]


def test_what_goes_wrong_ahead_is_raised_where_the_item_is_taken() -> None:
    """An error belongs to its own step, not to the one before it."""

    def make(number: int) -> int:
        if number == 1:
            raise ValueError("a row has 9 blocks but 8 slots")
        return number

    ahead = Ahead(make)
    assert ahead.take(0) == 0
    with pytest.raises(ValueError, match="9 blocks"):
        ahead.take(1)
    ahead.close()


def test_packed_tables_come_back_as_they_were() -> None:
    """Every type and shape, an empty one among them, aligned for compiled code."""
    tables = [
        torch.arange(7), torch.randn(3, 5).double(), torch.tensor([[True, False]]),
        torch.zeros(0, dtype=torch.long), torch.arange(6, dtype=torch.int32).view(2, 3).mT,
    ]  # fmt: skip
    cpu = torch.device("cpu")
    back = pack(tables, cpu).to(cpu)
    start = back[0].data_ptr()
    for table, copy in zip(tables, back, strict=True):
        assert copy.dtype == table.dtype
        assert torch.equal(copy, table)
        assert (copy.data_ptr() - start) % ALIGN == 0 or not copy.numel()
