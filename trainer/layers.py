"""The pieces that target and drafter share: norm, rotary positions, feed-forward, heads.

Shapes: B batch, T positions, h hidden, f feed-forward width, H heads, D head width.
It knows nothing of masks, caches or blocks.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trainer.feedforward import feed_forward


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The sizes of a decoder of the Llama family."""

    vocab: int
    hidden: int
    ffn: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    rope_theta: float
    eps: float
    tied: bool = False
    """The head is the embedding's own matrix."""
    qk_norm: bool = True
    """RMSNorm over each head's queries and keys (Qwen3)."""
    qkv_bias: bool = False
    """A bias on the query, key and value projections (Qwen2)."""
    rope_scaling: tuple[float, float, float, float] | None = None
    """Llama 3's factor, low and high frequency factors and original length."""


class RMSNorm(nn.Module):
    """Root-mean-square norm over the last dimension, with a weight."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        """Normalise `x` [..., width]."""
        return F.rms_norm(x, (x.shape[-1],), self.weight, self.eps)


class FeedForward(nn.Module):
    """SwiGLU beside a residual, with gate and up projection in one matrix."""

    def __init__(self, hidden: int, ffn: int) -> None:
        super().__init__()
        self.gate_up = nn.Linear(hidden, 2 * ffn, bias=False)
        self.down = nn.Linear(ffn, hidden, bias=False)
        self.recompute = False
        """Keep no activations for the backward, at the price of one product more there."""

    def forward(self, x: Tensor, z: Tensor) -> Tensor:
        """`x` [..., h] plus the feed-forward of `z`, which is `x` behind a norm."""
        flat = feed_forward(
            x.flatten(0, -2), z.flatten(0, -2), self.gate_up.weight, self.down.weight,
            recompute=self.recompute,
        )  # fmt: skip
        return flat.view(x.shape)


def rope_table(shape: Shape, positions_BT: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Cosines and sines [B, 1, T, D] for `positions_BT`, computed in float32 or wider."""
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    half = torch.arange(0, shape.head_dim, 2, device=positions_BT.device, dtype=wide)
    frequency = shape.rope_theta ** -(half / shape.head_dim)
    if shape.rope_scaling is not None:
        frequency = _llama3(frequency, shape.rope_scaling)
    angle = positions_BT.to(wide)[:, None, :, None] * frequency
    angle = torch.cat((angle, angle), dim=-1)
    return angle.cos().to(dtype), angle.sin().to(dtype)


def _llama3(frequency: Tensor, scaling: tuple[float, float, float, float]) -> Tensor:
    factor, low, high, length = scaling
    wavelength = 2 * torch.pi / frequency
    blend = ((length / wavelength - low) / (high - low)).clamp(0, 1)
    return frequency * (blend + (1 - blend) / factor)


def rotate(x_BHTD: Tensor, table: tuple[Tensor, Tensor]) -> Tensor:
    """Turn queries or keys by their position's angle (the halves are paired, as in Llama)."""
    cos, sin = table
    first, second = x_BHTD.chunk(2, dim=-1)
    return x_BHTD * cos + torch.cat((-second, first), dim=-1) * sin


def split_heads(x_BTm: Tensor, head_dim: int) -> Tensor:
    """[B, T, heads * D] -> [B, heads, T, D]."""
    return x_BTm.unflatten(-1, (-1, head_dim)).transpose(1, 2)


def join_heads(x_BHTD: Tensor) -> Tensor:
    """[B, H, T, D] -> [B, T, H * D]."""
    return x_BHTD.transpose(1, 2).flatten(-2)
