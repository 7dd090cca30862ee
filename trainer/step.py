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
from trainer.masks import dense_mask, flex_mask, flex_tables
from trainer.staging import Packed, pack


@dataclass(frozen=True, slots=True, kw_only=True)
class Frozen:
    """What the drafter borrows from the target."""

    embed_Vh: Tensor
    head_Vh: Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What target and drafter read of a batch, on their device."""

    tokens_BS: Tensor
    doc_BS: Tensor
    context_position_BS: Tensor
    noise_BQ: Tensor
    block_position_BQ: Tensor
    block: int
    attend: Attend


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedBatch:
    """A batch on the CPU, with its mask: a table for the CPU, flex attention's for CUDA."""

    packed: Packed
    block: int
    window: int

    @property
    def shape(self) -> torch.Size:
        """Of its tokens."""
        return self.packed.kinds[0][1]

    def to(self, device: torch.device) -> Batch:
        """The batch on the device that it was packed for."""
        return self.laid_out(self.packed.to(device))

    def laid_out(self, tables: list[Tensor]) -> Batch:
        """The batch of its tables, which are on the device."""
        tokens, doc, context, noise, position, *mask = tables
        if tokens.is_cuda:
            rule = flex_mask(mask, length=doc.shape[1], block=self.block, window=self.window)
            attend = attend_flex(rule)
        else:
            attend = attend_dense(mask[0])
        return Batch(
            tokens_BS=tokens, doc_BS=doc, context_position_BS=context, noise_BQ=noise,
            block_position_BQ=position, block=self.block, attend=attend,
        )  # fmt: skip


def pack_batch(
    rows: Rows, blocks: Blocks, *, block: int, window: int, device: torch.device
) -> PackedBatch:
    """All of a batch that can be computed before its step, in any thread."""
    make_mask = flex_tables if device.type == "cuda" else _dense_tables
    mask = make_mask(blocks.anchor_BN, blocks.keep_BN, rows.doc_BS, block, window)
    tables = [rows.tokens_BS, rows.doc_BS, rows.position_BS, blocks.noise_BQ, blocks.position_BQ]
    return PackedBatch(packed=pack([*tables, *mask], device), block=block, window=window)


def _dense_tables(
    anchor_BN: Tensor, keep_BN: Tensor, doc_BS: Tensor, block: int, window: int
) -> list[Tensor]:
    return [dense_mask(anchor_BN, keep_BN, doc_BS, block, window)]


def plan_for(blocks: Blocks, config: LossConfig, device: torch.device) -> Plan:
    """The supervised slots, on the CPU, cut for `device`: compiled code wants one shape."""
    return plan_slots(blocks, config, pad=device.type == "cuda")


def slot_hidden(
    drafter: Drafter, frozen: Frozen, features_BSF: Tensor, batch: Batch,
    row_M: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Hidden states before the final norm: of every slot [B, Q, h], or of `row_M` [M, h]."""
    noise_BQh = F.embedding(batch.noise_BQ, frozen.embed_Vh)
    out: Tensor = drafter(
        noise_BQh, features_BSF, batch.context_position_BS, batch.block_position_BQ, batch.attend,
        block=batch.block, row_M=row_M,
    )  # fmt: skip
    return out


def batch_loss(
    drafter: Drafter, frozen: Frozen, features_BSF: Tensor, batch: Batch, plan: Plan,
    config: LossConfig,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """The weighted sum of the batch's losses, and of each planned slot its loss and hit.

    The sum is to be divided by the plans' denominators, summed over ranks and accumulation.
    `plan` is on the features' device.
    """
    hidden_Mh = slot_hidden(drafter, frozen, features_BSF, batch, plan.row_M)
    return head_loss(drafter.norm(hidden_Mh), frozen.head_Vh, plan, config)
