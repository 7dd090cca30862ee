"""SwiGLU on CUDA, forward and backward each in one pass.

Imported on CUDA only, since it needs triton. It owns the kernels; feedforward.py owns the
rule, and says the same in plain torch.
"""

import triton  # type: ignore[import-not-found,unused-ignore]  # comes with torch on CUDA only
import triton.language as tl  # type: ignore[import-not-found,unused-ignore]  # as above
from torch import Tensor

BLOCK = 2048


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]  # triton is untyped
def _activated(both, out, width: tl.constexpr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]  # the kernel's arguments have triton's own types
    row = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    live = at < width
    gate = tl.load(both + row * 2 * width + at, mask=live).to(tl.float32)
    up = tl.load(both + row * 2 * width + width + at, mask=live).to(tl.float32)
    active = gate * tl.sigmoid(gate) * up
    tl.store(out + row * width + at, active.to(out.dtype.element_ty), mask=live)


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]  # triton is untyped
def _slopes(both, grad, width: tl.constexpr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]  # the kernel's arguments have triton's own types
    row = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    live = at < width
    of_gate, of_out = both + row * 2 * width + at, grad + row * width + at
    of_up = of_gate + width
    gate = tl.load(of_gate, mask=live).to(tl.float32)
    up = tl.load(of_up, mask=live).to(tl.float32)
    slope = tl.load(of_out, mask=live).to(tl.float32)
    share = tl.sigmoid(gate)
    silu = gate * share
    kind = both.dtype.element_ty
    tl.store(of_gate, (slope * up * (share + silu * (1.0 - share))).to(kind), mask=live)
    tl.store(of_up, (slope * silu).to(kind), mask=live)
    tl.store(of_out, (silu * up).to(kind), mask=live)


def activated(both: Tensor) -> Tensor:
    """silu(gate) * up [M, f] of `both` [M, 2f], gate first."""
    rows, width = both.shape[0], both.shape[1] // 2
    assert both.is_contiguous()
    out = both.new_empty(rows, width)
    _activated[(rows, triton.cdiv(width, BLOCK))](both, out, width=width, BLOCK=BLOCK, num_warps=8)
    return out


def slopes(both: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients of gate and up, written over `both`, and the activations, over `grad`."""
    rows, width = grad.shape
    assert both.is_contiguous()
    assert grad.is_contiguous()
    _slopes[(rows, triton.cdiv(width, BLOCK))](both, grad, width=width, BLOCK=BLOCK, num_warps=8)
    return both, grad
