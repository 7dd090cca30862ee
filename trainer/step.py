"""One forward of the drafter on a batch: from rows and blocks to the summed loss.

Training, evaluation and the measurements in bench/ all go through it, so that what is
measured is what trains. It owns no state.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from trainer.blocks import Blocks, Rows
from trainer.config import LossConfig
from trainer.drafter import Attend, Drafter, attend_dense
from trainer.headloss import Plan, head_loss
from trainer.masks import dense_mask


@dataclass(frozen=True, slots=True, kw_only=True)
class Frozen:
    """What the drafter borrows from the target."""

    embed_Vh: Tensor
    head_Vh: Tensor


def attention_for(rows: Rows, blocks: Blocks, block: int, window: int) -> Attend:
    """Attention under the blocks' mask, by a table."""
    mask = dense_mask(blocks.anchor_BN, blocks.keep_BN, rows.doc_BS, block, window)
    return attend_dense(mask)


def slot_hidden(
    drafter: Drafter,
    frozen: Frozen,
    features_BSF: Tensor,
    rows: Rows,
    blocks: Blocks,
    attend: Attend,
) -> Tensor:
    """Hidden states [B, Q, h] of every slot of every block, before the final norm."""
    device = features_BSF.device
    noise_BQh = F.embedding(blocks.noise_BQ.to(device), frozen.embed_Vh)
    return drafter(
        noise_BQh,
        features_BSF,
        rows.position_BS.to(device),
        blocks.position_BQ.to(device),
        attend,
    )


def batch_loss(
    drafter: Drafter,
    frozen: Frozen,
    features_BSF: Tensor,
    rows: Rows,
    blocks: Blocks,
    plan: Plan,
    attend: Attend,
    config: LossConfig,
) -> tuple[Tensor, Tensor, Tensor]:
    """The weighted sum of the batch's losses, and of each planned slot its loss and hit.

    The sum is to be divided by the plans' denominators, summed over ranks and accumulation.
    """
    hidden_BQh = slot_hidden(drafter, frozen, features_BSF, rows, blocks, attend)
    chosen_Mh = torch.index_select(hidden_BQh.flatten(0, 1), 0, plan.row_M)
    return head_loss(drafter.norm(chosen_Mh), frozen.head_Vh, plan, config)
