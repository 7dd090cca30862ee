"""Answers, their ends, packing and the order of rows."""

from pathlib import Path

import pytest
import torch

from tests.trainer.conftest import made
from trainer.config import CorpusConfig
from trainer.corpus import LOOP_LENGTH, Answers, Document, end_answer, loop_start, without_token
from trainer.packing import RowOrder
from trainer.targets import END, load_target
from trainer.textfiles import CorpusError

CONFIG = CorpusConfig(
    samples=6, eval_samples=2, prompt_tokens=16, answer_tokens=20, row_tokens=100, anchors=4,
    row_anchors=9,
)  # fmt: skip


def test_an_answer_ends_where_it_begins_to_loop() -> None:
    """The first turn of the loop is kept, the repetition is cut, and it is said."""
    head, turn = list(range(100, 130)), [1, 2, 3, 4, 5]
    looping = head + turn * 20
    assert loop_start(looping) == len(head) + len(turn)
    assert end_answer(looping, (END,)) == (head + turn, True)
    almost = head + turn + (turn * 20)[: LOOP_LENGTH - 1]
    assert end_answer(almost, (END,)) == (almost, False)


def test_an_answer_ends_after_its_end_token() -> None:
    """What follows the end token is no answer."""
    assert end_answer([5, 6, END, 7, END], (END,)) == ([5, 6, END], False)


def test_documents_are_the_same_again_and_come_from_the_cache(tmp_path: Path) -> None:
    """The same seed gives the same documents, and a cached answer is not made again."""
    target = load_target("builtin", torch.device("cpu"), torch.float32)
    calls: list[int] = []

    def make(cache: Path) -> list[Document]:
        answers = Answers(target=target, config=CONFIG, held_out=False, seed=3, cache=cache)
        return made(answers, lambda: calls.append(1))

    first, again, cached = make(tmp_path / "a"), make(tmp_path / "b"), make(tmp_path / "a")
    assert first == again == cached
    assert len(calls) == 2
    assert all(document.prompt == 16 for document in first)


def documents() -> list[Document]:
    """Twenty documents of lengths 18 to 37, told apart by their tokens."""
    return [Document(tokens=(i,) * (18 + i), prompt=16, looped=False) for i in range(20)]


def test_rows_hold_every_document_once_an_epoch_and_its_whole_share_of_anchors() -> None:
    """No row is over its tokens or block slots, and an epoch leaves nobody out."""
    order = RowOrder(documents(), CONFIG, seed=1)
    for epoch in (0, 1):
        rows = order.rows_of_epoch(epoch)
        assert sorted(i for row in rows for i in row) == list(range(20))
        for row in rows:
            members = [documents()[i] for i in row]
            assert sum(len(d.tokens) for d in members) <= 100
            assert sum(min(4, len(d.tokens) - d.prompt - 1) for d in members) <= 9
    assert order.rows_of_epoch(0) != order.rows_of_epoch(1)


def test_any_batch_can_be_asked_for_at_once() -> None:
    """The map from a row's number to its content needs no history, across epochs too."""
    long = RowOrder(documents(), CONFIG, seed=1)
    wanted = [long.batch(index, 1).tokens_BS for index in range(40)]
    late = RowOrder(documents(), CONFIG, seed=1).batch(25, 3)
    assert torch.equal(late.tokens_BS, torch.cat(wanted[25:28]))
    assert late.supervised_BS.any(dim=1).all()


def test_the_mask_token_is_no_word_of_the_corpus() -> None:
    """An answer that drew it is left out; a prompt that holds it is an error."""
    clean = Document(tokens=(1, 2, 3, 4), prompt=2, looped=False)
    drawn = Document(tokens=(1, 2, 9, 4), prompt=2, looped=False)
    asked = Document(tokens=(9, 2, 3, 4), prompt=2, looped=False)
    assert without_token(9, [clean, drawn, clean]) == [clean, clean]
    for documents in ([clean, asked], [drawn]):
        with pytest.raises(CorpusError, match=r"drafter\.mask_token: 9 occurs in the corpus"):
            without_token(9, documents)
