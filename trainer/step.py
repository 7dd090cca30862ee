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
from trainer.drafter import Attend, Drafter, attend_dense, attend_flex
from trainer.headloss import Plan, head_loss, plan_slots
from trainer.masks import dense_mask, flex_mask
from trainer.staging import stage


@dataclass(frozen=True, slots=True, kw_only=True)
class Frozen:
    """What the drafter borrows from the target."""

    embed_Vh: Tensor
    head_Vh: Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What the drafter reads of a batch, on its device."""

    noise_BQ: Tensor
    block_position_BQ: Tensor
    context_position_BS: Tensor
    attend: Attend


def stage_batch(
    rows: Rows, blocks: Blocks, *, block: int, window: int, device: torch.device
) -> Batch:
    """Move a batch to `device`, with its mask: a table on the CPU, flex attention on CUDA."""
    noise, block_position, context_position = stage(
        [blocks.noise_BQ, blocks.position_BQ, rows.position_BS], device
    )
    if device.type == "cuda":
        mask = flex_mask(
            blocks.anchor_BN, blocks.keep_BN, rows.doc_BS,
            block=block, window=window, device=device,
        )  # fmt: skip
        attend = attend_flex(mask)
    else:
        attend = attend_dense(
            dense_mask(blocks.anchor_BN, blocks.keep_BN, rows.doc_BS, block, window)
        )
    return Batch(
        noise_BQ=noise,
        block_position_BQ=block_position,
        context_position_BS=context_position,
        attend=attend,
    )


def plan_for(blocks: Blocks, config: LossConfig, device: torch.device) -> Plan:
    """The supervised slots, on the CPU, cut for `device`: compiled code wants one shape."""
    return plan_slots(blocks, config, pad=device.type == "cuda")


def slot_hidden(drafter: Drafter, frozen: Frozen, features_BSF: Tensor, batch: Batch) -> Tensor:
    """Hidden states [B, Q, h] of every slot of every block, before the final norm."""
    noise_BQh = F.embedding(batch.noise_BQ, frozen.embed_Vh)
    return drafter(
        noise_BQh,
        features_BSF,
        batch.context_position_BS,
        batch.block_position_BQ,
        batch.attend,
    )


def batch_loss(
    drafter: Drafter,
    frozen: Frozen,
    features_BSF: Tensor,
    batch: Batch,
    plan: Plan,
    config: LossConfig,
) -> tuple[Tensor, Tensor, Tensor]:
    """The weighted sum of the batch's losses, and of each planned slot its loss and hit.

    The sum is to be divided by the plans' denominators, summed over ranks and accumulation.
    `plan` is on the features' device.
    """
    hidden_BQh = slot_hidden(drafter, frozen, features_BSF, batch)
    chosen_Mh = torch.index_select(hidden_BQh.flatten(0, 1), 0, plan.row_M)
    return head_loss(drafter.norm(chosen_Mh), frozen.head_Vh, plan, config)
