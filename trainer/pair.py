"""A drafter beside its target: all that drafting needs, in one value.

Evaluation and speculative decoding take it; it owns no computation.
"""

from dataclasses import dataclass

import torch

from trainer.drafter import Drafter
from trainer.step import Frozen
from trainer.targets import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A drafter, its target, and how its blocks are laid."""

    drafter: Drafter
    target: Target
    layers: tuple[int, ...]
    """The target's layers that feed the drafter."""
    block: int
    window: int
    mask_token: int

    @property
    def frozen(self) -> Frozen:
        """The target's embedding and head."""
        decoder = self.target.decoder
        return Frozen(embed_Vh=decoder.embed.weight, head_Vh=decoder.head.weight)

    @property
    def device(self) -> torch.device:
        """Where both lie."""
        return self.target.decoder.embed.weight.device
