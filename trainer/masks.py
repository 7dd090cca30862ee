"""Which key a drafter's query may see: as a rule for flex attention and as a table.

Keys are the S context positions followed by the block slots; queries are the slots.
A block sees its own document's context strictly before its anchor (the target's feature
at the anchor is not known yet at inference), and itself. It owns this rule only.

Shapes: B batch, S context, N blocks, Q = N * block slots, T = S + Q keys.
"""

import torch
from torch import Tensor


def dense_mask(
    anchor_BN: Tensor, keep_BN: Tensor, doc_BS: Tensor, block: int, window: int = 0
) -> Tensor:
    """The rule as booleans [B, 1, Q, S + Q]; True where attention is allowed.

    `window` above 0 limits the context to that many positions back and makes the block causal.
    """
    device = anchor_BN.device
    num_blocks, length = anchor_BN.shape[1], doc_BS.shape[1]
    slot_Q = torch.arange(num_blocks * block, device=device) % block
    owner_Q = torch.arange(num_blocks * block, device=device) // block
    anchor_BQ1 = anchor_BN[:, owner_Q, None]
    doc_BQ1 = doc_BS.gather(1, anchor_BN)[:, owner_Q, None]
    at_S = torch.arange(length, device=device)
    context = (at_S < anchor_BQ1) & (doc_BS[:, None, :] == doc_BQ1)
    inside = (owner_Q[:, None] == owner_Q[None, :]).expand(anchor_BN.shape[0], -1, -1)
    if window:
        context = context & (at_S >= anchor_BQ1 + slot_Q[:, None] - (window - 1))
        inside = inside & (slot_Q[:, None] >= slot_Q[None, :])
    allowed = torch.cat((context, inside), dim=-1) & keep_BN[:, owner_Q, None]
    return allowed[:, None]
