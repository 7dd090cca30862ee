"""SwiGLU beside a residual, with a backward that writes over what it no longer needs.

The backward makes the activations anew in the pass that makes their gradient, so only the
product before them is kept, or with `recompute` not even that. It owns this function and
its gradient; on CUDA swiglu_kernel.py does the elementwise part in one pass.

Shapes: M rows, h hidden, f feed-forward width; weights are as nn.Linear has them.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


def feed_forward(
    x_Mh: Tensor, z_Mh: Tensor, gate_up: Tensor, down: Tensor, *, recompute: bool
) -> Tensor:
    """`x` + down(silu(gate(z)) * up(z)). Its backward can be run once."""
    out: Tensor = _FeedForward.apply(x_Mh, z_Mh, gate_up, down, recompute)
    return out


class _FeedForward(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x_Mh: Tensor, z_Mh: Tensor, gate_up: Tensor, down: Tensor, recompute: bool
    ) -> Tensor:
        both = z_Mh @ gate_up.T
        out = torch.addmm(x_Mh, _activated(both), down.T)
        ctx.save_for_backward(z_Mh, gate_up, down)
        ctx.both = None if recompute else both
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,) = grads
        z_Mh, gate_up, down = ctx.saved_tensors
        both, ctx.both = ctx.both, None
        if both is None:
            both = z_Mh @ gate_up.T
        slope, active = _slopes(both, grad @ down)
        grad_down = grad.T @ active
        return grad, slope @ gate_up, slope.T @ z_Mh, grad_down, None


def _activated(both: Tensor) -> Tensor:
    if _by_kernel(both):
        from trainer.swiglu_kernel import activated

        return activated(both)
    gate, up = both.chunk(2, dim=-1)
    return F.silu(gate) * up


def _slopes(both: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients of gate and up [M, 2f], and the activations [M, f]; over `both` and `grad`."""
    if _by_kernel(both):
        from trainer.swiglu_kernel import slopes

        return slopes(both, grad)
    gate, up = both.chunk(2, dim=-1)
    share = gate.sigmoid()
    silu = gate * share
    of_gate = grad * up * (share + silu * (1 - share))
    active = silu * up
    return torch.cat((of_gate, grad * silu), dim=-1), active


def _by_kernel(x: Tensor) -> bool:
    # The kernel computes in float32: float64, which only a comparison uses, has the plain form.
    return x.is_cuda and x.dtype != torch.float64
