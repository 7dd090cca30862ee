"""The batch of any step, planned on the CPU from the step's number alone.

It owns the fixed map (step, part, rank, slot) -> rows and anchors; a resumed run asks for
the same numbers and gets the same batches.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from trainer.blocks import Rows, draw_anchors, make_blocks
from trainer.config import Config
from trainer.corpus import Document
from trainer.headloss import Plan
from trainer.packing import RowOrder
from trainer.staging import Packed, pack
from trainer.step import PackedBatch, pack_batch, plan_for


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One micro-batch: planned before the step, so that the denominator is known first."""

    batch: PackedBatch
    members: list[list[int]]
    """The documents of each row, in their order there."""
    plan: Plan
    """On the CPU."""
    tables: Packed
    """The plan's, on their way to the device."""
    drafted: int
    """Slots of the blocks that are kept."""
    pairs: int
    """Query-key pairs of one head that the mask allows, for MFU."""


class Batches:
    """Parts by step, for one rank of `ranks`."""

    def __init__(
        self,
        documents: list[Document],
        config: Config,
        mask_token: int,
        device: torch.device,
        *,
        rank: int = 0,
        ranks: int = 1,
    ) -> None:
        self._order = RowOrder(documents, config.corpus, config.seed)
        self._config, self._mask_token, self._device = config, mask_token, device
        self._rank, self._ranks = rank, ranks

    def parts(self, step: int) -> list[Part]:
        """The parts of `step` (counted from 0), one for each accumulation."""
        each = self._config.optim.accumulate
        return [self._part(step, part) for part in range(each)]

    def rows(self, step: int, part: int, rank: int) -> Rows:
        """The rows of any rank's part: what a target reads."""
        return self._order.batch(self._first(step, part, rank), self._config.optim.rows)

    def _first(self, step: int, part: int, rank: int) -> int:
        number = (step * self._config.optim.accumulate + part) * self._ranks + rank
        return number * self._config.optim.rows

    def _part(self, step: int, part: int) -> Part:
        config = self._config
        first, count = self._first(step, part, self._rank), config.optim.rows
        rows = self.rows(step, part, self._rank)
        seeds = (config.seed * 1_000_003 + row for row in range(first, first + count))
        generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        anchor_BN, keep_BN = draw_anchors(
            rows, config.corpus.anchors, config.corpus.row_anchors, generators
        )
        block = config.drafter.block
        blocks = make_blocks(rows, anchor_BN, keep_BN, block, self._mask_token)
        plan = plan_for(blocks, config.loss, self._device)
        return Part(
            batch=pack_batch(
                rows, blocks, block=block, window=config.drafter.window, device=self._device
            ),
            members=self._order.members(first, count),
            plan=plan,
            tables=pack(plan.tables(), self._device),
            drafted=int(keep_BN.sum()) * block,
            pairs=_pairs(rows, anchor_BN, keep_BN, block, config.drafter.window),
        )


def _pairs(rows: Rows, anchor_BN: Tensor, keep_BN: Tensor, block: int, window: int) -> int:
    # A window's first slot sees the most; half a block more or less is nothing beside it.
    seen_BN = rows.position_BS.gather(1, anchor_BN)
    if window:
        seen_BN = seen_BN.clamp(max=window)
    return int(((seen_BN + block) * block * keep_BN).sum())
