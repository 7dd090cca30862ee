"""The mask's rule, against a table written out entry by entry."""

import itertools

import pytest
import torch

from trainer.drafter import attend_dense
from trainer.masks import dense_mask

BLOCK = 3
DOC = [0, 0, 0, 0, 0, 1, 1, 1, 1, -1]
ANCHORS = [2, 3, 6, 6]
KEEP = [True, True, True, False]


def allowed(query: int, key: int, window: int) -> bool:
    """The rule for one query and key, as the method states it."""
    owner, slot = divmod(query, BLOCK)
    anchor = ANCHORS[owner]
    if not KEEP[owner]:
        return False
    if key < len(DOC):
        near = window == 0 or key >= anchor + slot - (window - 1)
        return key < anchor and DOC[key] == DOC[anchor] and near
    other, other_slot = divmod(key - len(DOC), BLOCK)
    return other == owner and (window == 0 or other_slot <= slot)


@pytest.mark.parametrize("window", [0, 3])
def test_mask_equals_the_brute_force_table(window: int) -> None:
    """Every entry of the mask is the rule's, with packing, an empty slot and a window."""
    mask = dense_mask(
        torch.tensor([ANCHORS]), torch.tensor([KEEP]), torch.tensor([DOC]), BLOCK, window
    )
    queries = len(ANCHORS) * BLOCK
    keys = len(DOC) + queries
    assert mask.shape == (1, 1, queries, keys)
    for query, key in itertools.product(range(queries), range(keys)):
        assert bool(mask[0, 0, query, key]) == allowed(query, key, window), (query, key)


def test_an_empty_slot_of_the_batch_gives_no_nan() -> None:
    """A block that is not kept sees nothing and yields finite output and gradient."""
    mask = dense_mask(torch.tensor([ANCHORS]), torch.tensor([KEEP]), torch.tensor([DOC]), BLOCK)
    q = torch.randn(1, 2, mask.shape[2], 4, requires_grad=True)
    k = torch.randn(1, 1, mask.shape[3], 4, requires_grad=True)
    out = attend_dense(mask)(q, k, k)
    out.sum().backward()
    assert out.isfinite().all()
    assert q.grad is not None
    assert q.grad.isfinite().all()
    assert k.grad is not None
    assert k.grad.isfinite().all()
