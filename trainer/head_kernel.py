"""The head's loss and slope on CUDA, each in one pass over a chunk's logits.

Imported on CUDA only, since it needs triton. It owns the kernels; headloss.py owns the
rule, and says the same in plain torch.
"""

import torch
import triton  # type: ignore[import-not-found,unused-ignore]  # comes with torch on CUDA only
import triton.language as tl  # type: ignore[import-not-found,unused-ignore]  # as above
from torch import Tensor

BLOCK = 4096


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]  # triton is untyped
def _statistics(  # type: ignore[no-untyped-def]  # the kernel's arguments have triton's own types
    logits, label, norm, entropy, hit, vocab: tl.constexpr, DEEP: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    logits += row * vocab
    # Each lane keeps its own maximum, sum and place; they meet once, at the end. It takes
    # several values at a time: one exponential more for all of them, not for each.
    lane = tl.arange(0, DEEP)[:, None] * LANES + tl.arange(0, LANES)[None, :]
    best = tl.full([LANES], -1e38, tl.float32)
    total = tl.zeros([LANES], tl.float32)
    place = tl.zeros([LANES], tl.int32)
    for start in range(0, vocab, DEEP * LANES):
        at = start + lane
        x = tl.load(logits + at, mask=at < vocab, other=-float("inf")).to(tl.float32)
        high = tl.max(x, 0)
        higher = tl.maximum(best, high)
        total = total * tl.exp(best - higher) + tl.sum(tl.exp(x - higher[None, :]), 0)
        first = tl.min(tl.where(x == high[None, :], at, vocab), 0)
        place = tl.where(high > best, first, place)
        best = higher
    highest = tl.max(best, 0)
    log_sum = highest + tl.log(tl.sum(total * tl.exp(best - highest), 0))
    winner = tl.min(tl.where(best == highest, place, vocab), 0)
    wanted = tl.load(label + row)
    chosen = tl.load(logits + wanted).to(tl.float32)
    tl.store(norm + row, log_sum)
    tl.store(entropy + row, log_sum - chosen)
    tl.store(hit + row, winner == wanted)


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]  # triton is untyped
def _slope(  # type: ignore[no-untyped-def]  # the kernel's arguments have triton's own types
    logits, norm, label, weight, vocab: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    logits += row * vocab
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(logits + at, mask=at < vocab, other=0.0).to(tl.float32)
    share = tl.exp(x - tl.load(norm + row))
    wrong = tl.where(at == tl.load(label + row), share - 1.0, share)
    out = (wrong * tl.load(weight + row)).to(logits.dtype.element_ty)
    tl.store(logits + at, out, mask=at < vocab)


def statistics(logits_RV: Tensor, label_R: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Of each row the log of the sum, the cross entropy, and whether the label was highest."""
    rows, vocab = logits_RV.shape
    assert logits_RV.is_contiguous()
    norm_R = logits_RV.new_empty(rows, dtype=torch.float32)
    entropy_R = torch.empty_like(norm_R)
    hit_R = torch.empty_like(norm_R, dtype=torch.bool)
    _statistics[(rows,)](
        logits_RV, label_R, norm_R, entropy_R, hit_R, vocab=vocab, DEEP=4, LANES=2048, num_warps=8
    )
    return norm_R, entropy_R, hit_R


def slope(logits_RV: Tensor, norm_R: Tensor, label_R: Tensor, weight_R: Tensor) -> Tensor:
    """The loss's gradient by the logits, written over them."""
    rows, vocab = logits_RV.shape
    assert logits_RV.is_contiguous()
    _slope[(rows, triton.cdiv(vocab, BLOCK))](
        logits_RV, norm_R, label_R, weight_R, vocab=vocab, BLOCK=BLOCK, num_warps=8
    )
    return logits_RV
