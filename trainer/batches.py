"""The batch of any step, planned on the CPU from the step's number alone.

It owns the fixed map (step, part, rank, slot) -> rows and anchors; a resumed run asks for
the same numbers and gets the same batches.
"""

from dataclasses import dataclass

import torch

from trainer.blocks import draw_anchors, make_blocks
from trainer.config import Config
from trainer.corpus import Document
from trainer.headloss import Plan
from trainer.packing import RowOrder
from trainer.step import PackedBatch, pack_batch, plan_for


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One micro-batch: planned before the step, so that the denominator is known first."""

    batch: PackedBatch
    plan: Plan
    """On the CPU."""
    drafted: int
    """Slots of the blocks that are kept."""


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
        return [self._part((step * each + i) * self._ranks + self._rank) for i in range(each)]

    def _part(self, number: int) -> Part:
        config = self._config
        first, count = number * config.optim.rows, config.optim.rows
        rows = self._order.batch(first, count)
        seeds = (config.seed * 1_000_003 + row for row in range(first, first + count))
        generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        anchor_BN, keep_BN = draw_anchors(
            rows, config.corpus.anchors, config.corpus.row_anchors, generators
        )
        block = config.drafter.block
        blocks = make_blocks(rows, anchor_BN, keep_BN, block, self._mask_token)
        return Part(
            batch=pack_batch(
                rows, blocks, block=block, window=config.drafter.window, device=self._device
            ),
            plan=plan_for(blocks, config.loss, self._device),
            drafted=int(keep_BN.sum()) * block,
        )
