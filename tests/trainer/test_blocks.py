"""Anchors and labels: where blocks start, and which slots count."""

import torch

from trainer.blocks import Rows, anchor_candidates, draw_anchors, make_blocks

MASK = 99


def rows() -> Rows:
    """One packed row: an answer with a user's turn inside, a second document, padding."""
    own = [0, 0, 1, 1, 1, 0, 1, 1, 0, 1, 1, 1, 0, 0]
    doc = [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, -1, -1]
    position = [*range(8), *range(4), 0, 0]
    return Rows(
        tokens_BS=torch.arange(14)[None] + 10,
        doc_BS=torch.tensor([doc]),
        position_BS=torch.tensor([position]),
        supervised_BS=torch.tensor([own]).bool(),
    )


def test_candidates_are_answer_tokens_followed_by_an_answer_token() -> None:
    """A position is a candidate only if it and its follower are the same answer's."""
    assert anchor_candidates(rows())[0].nonzero().flatten().tolist() == [2, 3, 6, 9, 10]


def test_every_document_gets_its_own_share_of_anchors() -> None:
    """Anchors are drawn for each document, distinct and sorted, and padded with keep False."""
    seen: set[int] = set()
    for seed in range(20):
        anchor, keep = draw_anchors(rows(), 2, 6, [torch.Generator().manual_seed(seed)])
        kept = anchor[0][keep[0]].tolist()
        assert len(kept) == 4
        assert kept == sorted(set(kept))
        assert sum(at < 8 for at in kept) == 2
        assert anchor[0].tolist() == sorted(anchor[0].tolist())
        seen.update(kept)
    assert seen == {2, 3, 6, 9, 10}


def test_labels_are_the_tokens_at_the_same_positions_and_stop_at_the_answers_end() -> None:
    """Slot j predicts the token j after the anchor, and counts while the answer lasts."""
    anchor = torch.tensor([[2, 6, 9, 9]])
    keep = torch.tensor([[True, True, True, False]])
    blocks = make_blocks(rows(), anchor, keep, 4, MASK)
    assert blocks.label_BNj[0, 0].tolist() == [13, 14, 15]
    assert blocks.valid_BNj[0].tolist() == [
        [True, True, False],  # then a user's turn
        [True, False, False],  # then the next document
        [True, True, False],  # then padding
        [False, False, False],  # not kept
    ]
    assert blocks.noise_BQ[0, :8].tolist() == [12, MASK, MASK, MASK, 16, MASK, MASK, MASK]
    assert blocks.position_BQ[0, 8:12].tolist() == [1, 2, 3, 4]


def test_validity_does_not_resume_after_a_gap() -> None:
    """Past a user's turn no slot counts again, though the answer goes on."""
    blocks = make_blocks(rows(), torch.tensor([[3]]), torch.tensor([[True]]), 6, MASK)
    assert blocks.valid_BNj[0, 0].tolist() == [True, False, False, False, False]
