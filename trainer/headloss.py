"""The weighted loss through the frozen head, its gradient made in the forward.

The head is not trained, so the gradient of the hidden states is computed while a chunk's
logits are live: no logits are kept and nothing is recomputed. Only supervised slots take
part. It owns the plan of those slots, their weights and the denominator; it does not
divide by it, since that is a sum over ranks and accumulation.

Shapes: M supervised slots, R of them in a chunk, h hidden, V vocabulary.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from trainer.blocks import Blocks
from trainer.config import LossConfig
from trainer.staging import pack


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The supervised slots of a batch, block after block, in chunks of whole blocks."""

    row_M: Tensor
    """Position among the flattened slots [B * Q]; a padding entry is 0, which none else is."""
    label_M: Tensor
    weight_M: Tensor
    """exp(-(j-1)/gamma), and 0 for padding; D-PACE replaces it by its own."""
    owner_M: Tensor
    """Which block of its chunk an entry belongs to."""
    slot_M: Tensor
    """j - 1."""
    bounds: tuple[tuple[int, int], ...]
    slots: int
    """Drafted slots of a block."""
    rows: int
    """Supervised slots, padding not counted."""
    denominator: float
    """What the summed loss is divided by, summed over ranks and accumulation first."""

    def tables(self) -> list[Tensor]:
        """What the loss reads of it on the device."""
        return [self.row_M, self.label_M, self.owner_M, self.slot_M, self.weight_M]

    def over(self, tables: list[Tensor]) -> "Plan":
        """The same plan with its tables from elsewhere."""
        row, label, owner, slot, weight = tables
        return replace(self, row_M=row, label_M=label, weight_M=weight, owner_M=owner, slot_M=slot)

    def to(self, device: torch.device) -> "Plan":
        """The same plan with its tables on `device`, copied without waiting."""
        return self.over(pack(self.tables(), device).to(device))


def plan_slots(blocks: Blocks, config: LossConfig, *, pad: bool) -> Plan:
    """Gather the supervised slots of `blocks`, on the CPU.

    With `pad` every chunk has the same length, so that compiled code sees one shape.
    """
    num_slots = blocks.label_BNj.shape[-1]
    chunk = max(config.chunk_rows, num_slots)
    valid = blocks.valid_BNj.flatten(0, 1)
    count_n = valid.sum(dim=-1)
    order: list[Tensor] = []
    owners: list[Tensor] = []
    bounds: list[tuple[int, int]] = []
    start = 0
    for first, stop in _whole_blocks(count_n.tolist(), chunk):
        cell = valid[first:stop].flatten().nonzero().flatten()
        length = chunk if pad else len(cell)
        order.append(_padded(cell + first * num_slots, length, -1))
        owners.append(_padded(cell // num_slots, length, 0))
        bounds.append((start, start + length))
        start += length
    cell_M = torch.cat(order) if order else torch.zeros(0, dtype=torch.long)
    real_M = cell_M >= 0
    cell_M = cell_M.clamp(min=0)
    slot_M = cell_M % num_slots
    weight_M = torch.exp(-slot_M.double() / config.gamma) * real_M
    kept = int((count_n > 0).sum())
    return Plan(
        row_M=(cell_M // num_slots * (num_slots + 1) + slot_M + 1) * real_M,
        label_M=blocks.label_BNj.flatten()[cell_M],
        weight_M=weight_M,
        owner_M=torch.cat(owners) if owners else torch.zeros(0, dtype=torch.long),
        slot_M=slot_M,
        bounds=tuple(bounds),
        slots=num_slots,
        rows=int(real_M.sum()),
        denominator=float(weight_M.sum()) if config.kind == "decay" else float(kept),
    )


def _whole_blocks(counts: list[int], chunk: int) -> list[tuple[int, int]]:
    spans, first, filled = [], 0, 0
    for block, count in enumerate(counts):
        if filled + count > chunk:
            spans.append((first, block))
            first, filled = block, 0
        filled += count
    if filled:
        spans.append((first, len(counts)))
    return spans


def _padded(x_R: Tensor, length: int, value: int) -> Tensor:
    return torch.nn.functional.pad(x_R, (0, length - len(x_R)), value=value)


def head_loss(
    hidden_Mh: Tensor, head_Vh: Tensor, plan: Plan, config: LossConfig
) -> tuple[Tensor, Tensor, Tensor]:
    """The weighted sum of cross entropies, and of each slot its own and whether it was hit.

    Only the first is differentiable, and only by `hidden_Mh`.
    """
    wanted = torch.is_grad_enabled() and hidden_Mh.requires_grad
    return _HeadLoss.apply(hidden_Mh, head_Vh, plan, config, wanted)


class _HeadLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden_Mh: Tensor, head_Vh: Tensor, plan: Plan, config: LossConfig, wanted: bool
    ) -> tuple[Tensor, Tensor, Tensor]:
        wide = torch.float64 if hidden_Mh.dtype == torch.float64 else torch.float32
        total = torch.zeros((), dtype=wide, device=hidden_Mh.device)
        entropy_M = torch.zeros(len(hidden_Mh), dtype=wide, device=hidden_Mh.device)
        hit_M = torch.zeros(len(hidden_Mh), dtype=torch.bool, device=hidden_Mh.device)
        grad_Mh = torch.empty_like(hidden_Mh) if wanted else None
        statistics, slope = _elementwise(hidden_Mh)
        for start, stop in plan.bounds:
            logits_RV = hidden_Mh[start:stop] @ head_Vh.T
            label_R = plan.label_M[start:stop]
            norm_R, entropy_R, hit_R = statistics(logits_RV, label_R)
            weight_R = plan.weight_M[start:stop].to(wide)
            if config.kind == "dpace":
                weight_R = _dpace(entropy_R, weight_R, plan, start, stop, config.alpha)
            total = total + (weight_R * entropy_R).sum()
            entropy_M[start:stop] = entropy_R
            hit_M[start:stop] = hit_R & (plan.weight_M[start:stop] > 0)
            if grad_Mh is not None:
                slope_RV = slope(logits_RV, norm_R, label_R, weight_R)
                torch.mm(slope_RV, head_Vh, out=grad_Mh[start:stop])
        ctx.grad = grad_Mh
        ctx.mark_non_differentiable(entropy_M, hit_M)
        return total, entropy_M, hit_M

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        grad_Mh = ctx.grad
        ctx.grad = None
        return grad_Mh * grads[0].to(grad_Mh.dtype), None, None, None, None


def _statistics(logits_RV: Tensor, label_R: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    wide_RV = logits_RV if logits_RV.dtype == torch.float64 else logits_RV.float()
    norm_R = wide_RV.logsumexp(dim=-1)
    chosen_R = wide_RV.gather(1, label_R[:, None])[:, 0]
    return norm_R, norm_R - chosen_R, wide_RV.argmax(dim=-1) == label_R


def _slope(logits_RV: Tensor, norm_R: Tensor, label_R: Tensor, weight_R: Tensor) -> Tensor:
    wide_RV = logits_RV.to(norm_R.dtype)
    column_V = torch.arange(logits_RV.shape[1], device=logits_RV.device)
    wrong_RV = (wide_RV - norm_R[:, None]).exp() - (column_V == label_R[:, None]).to(norm_R.dtype)
    return (wrong_RV * weight_R[:, None]).to(logits_RV.dtype)


def _elementwise(like: Tensor) -> tuple[Callable[..., Any], Callable[..., Any]]:
    # The kernels compute in float32: float64, which only a comparison uses, has the plain form.
    if not like.is_cuda or like.dtype == torch.float64:
        return _statistics, _slope
    from trainer.head_kernel import slope, statistics

    return statistics, slope


def _dpace(
    entropy_R: Tensor, real_R: Tensor, plan: Plan, start: int, stop: int, alpha: float
) -> Tensor:
    """Each slot's weight: the sum, from it to the block's end, of the confidence so far.

    A slot that is not supervised ends its block, so it counts as zero from there.
    """
    owner_R, slot_R = plan.owner_M[start:stop], plan.slot_M[start:stop]
    real = (real_R > 0).to(entropy_R.dtype)
    # The grid is sized by the chunk, not by its blocks, so that its shape never changes.
    grid = entropy_R.new_zeros(stop - start, plan.slots)
    confidence = (1 - alpha) * (-entropy_R).exp() + alpha
    grid.index_put_((owner_R, slot_R), confidence * real, accumulate=True)
    prefix = grid.cumprod(dim=-1)
    tail = prefix.flip(-1).cumsum(dim=-1).flip(-1)
    return tail[owner_R, slot_R] * real
