"""AdamW in one pass on CUDA: clip, moments, master weight and its bfloat16 copy.

Imported on CUDA only, since it needs triton. Per weight it moves 28 bytes, where a chain
of separate kernels moves three times that. It owns the kernel; optim.py owns the rule.
"""

import triton  # type: ignore[import-not-found,unused-ignore]  # comes with torch on CUDA only
import triton.language as tl  # type: ignore[import-not-found,unused-ignore]  # as above
from torch import Tensor

BLOCK = 2048


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]  # triton is untyped
def _update(  # type: ignore[no-untyped-def]  # the kernel's arguments have triton's own types
    weight, grad, master, first, second, scale, count,
    step_size, beta1, beta2, eps, keep, correction2, BLOCK: tl.constexpr,
):  # fmt: skip
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    live = at < count
    g = tl.load(grad + at, mask=live).to(tl.float32) * tl.load(scale)
    m = tl.load(first + at, mask=live)
    v = tl.load(second + at, mask=live)
    w = tl.load(master + at, mask=live) * keep
    m = m + (g - m) * (1 - beta1)
    v = v + (g * g - v) * (1 - beta2)
    w = w - step_size * m / (tl.sqrt(v / correction2) + eps)
    tl.store(first + at, m, mask=live)
    tl.store(second + at, v, mask=live)
    tl.store(master + at, w, mask=live)
    tl.store(weight + at, w.to(weight.dtype.element_ty), mask=live)


def update(
    weight: Tensor, grad: Tensor, master: Tensor, first: Tensor, second: Tensor, scale: Tensor,
    *, step_size: float, beta1: float, beta2: float, eps: float, keep: float, correction2: float,
) -> None:  # fmt: skip
    """Update one weight in place; `scale` is the clipping factor, on the device."""
    count = weight.numel()
    assert all(t.is_contiguous() for t in (weight, grad, master, first, second))
    _update[(triton.cdiv(count, BLOCK),)](
        weight, grad, master, first, second, scale, count,
        step_size, beta1, beta2, eps, keep, correction2, BLOCK=BLOCK, num_warps=8,
    )  # fmt: skip
