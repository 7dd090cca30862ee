"""The trained model: a short stack whose every layer sees the target's features as keys.

It owns the drafter's layers and the way context enters them (KV injection). It knows no
loss, no anchors and no cache policy; which key a query sees is the caller's `attend`.

Shapes: B rows, S context positions, Q block slots, h hidden, F features * h,
H heads, K key-value heads, D head width.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trainer.layers import FeedForward, RMSNorm, Shape, join_heads, rope_table, rotate, split_heads

if TYPE_CHECKING:
    from torch.nn.attention.flex_attention import BlockMask

Attend = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Queries [B, H, Q, D], keys and values [B, K, T, D] -> [B, H, Q, D]."""


class DraftLayer(nn.Module):
    """A Qwen3 layer whose keys and values are the context's, then the block's."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.head_dim = shape.head_dim
        self.input_norm = RMSNorm(shape.hidden, shape.eps)
        self.wq = nn.Linear(shape.hidden, shape.heads * shape.head_dim, bias=False)
        self.wkv = nn.Linear(shape.hidden, 2 * shape.kv_heads * shape.head_dim, bias=False)
        self.wo = nn.Linear(shape.heads * shape.head_dim, shape.hidden, bias=False)
        self.q_norm = RMSNorm(shape.head_dim, shape.eps)
        self.k_norm = RMSNorm(shape.head_dim, shape.eps)
        self.post_norm = RMSNorm(shape.hidden, shape.eps)
        self.ffn = FeedForward(shape.hidden, shape.ffn)

    def keys_values(self, y_BTh: Tensor, table: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """Keys and values [B, K, T, D] of context features or of normed block states."""
        k, v = self.wkv(y_BTh).chunk(2, dim=-1)
        return (
            rotate(self.k_norm(split_heads(k, self.head_dim)), table),
            split_heads(v, self.head_dim),
        )

    def mix(
        self,
        x_BQh: Tensor,
        y_BQh: Tensor,
        key: Tensor,
        value: Tensor,
        table: tuple[Tensor, Tensor],
        attend: Attend,
    ) -> Tensor:
        """Attend from the normed block states `y` and finish the layer on `x`."""
        q = rotate(self.q_norm(split_heads(self.wq(y_BQh), self.head_dim)), table)
        x_BQh = x_BQh + self.wo(join_heads(attend(q, key, value)))
        out: Tensor = x_BQh + self.ffn(self.post_norm(x_BQh))
        return out

    def forward(
        self,
        x_BQh: Tensor,
        context_BSh: Tensor,
        block_table: tuple[Tensor, Tensor],
        whole_table: tuple[Tensor, Tensor],
        attend: Attend,
    ) -> Tensor:
        """One layer over whole context and blocks, as in training.

        The context is not passed through the input norm; both go through one product.
        """
        y_BQh = self.input_norm(x_BQh)
        key, value = self.keys_values(torch.cat((context_BSh, y_BQh), dim=1), whole_table)
        return self.mix(x_BQh, y_BQh, key, value, block_table, attend)


class Drafter(nn.Module):
    """fc and its norm, the layers, and the norm before the target's head."""

    def __init__(self, shape: Shape, num_layers: int, num_features: int) -> None:
        super().__init__()
        self.shape = shape
        self.fc = nn.Linear(num_features * shape.hidden, shape.hidden, bias=False)
        self.hidden_norm = RMSNorm(shape.hidden, shape.eps)
        self.layers = nn.ModuleList(DraftLayer(shape) for _ in range(num_layers))
        self.norm = RMSNorm(shape.hidden, shape.eps)
        self._layer: Callable[..., Tensor] = DraftLayer.forward

    def compile_layers(self, backend: str = "inductor") -> None:
        """Compile one layer for all of them: one graph for each shape and gradient mode.

        A recompilation beyond the limit fails instead of running the dense attention.
        """
        from torch._dynamo import config

        config.recompile_limit = 64
        config.fail_on_recompile_limit_hit = True
        self._layer = torch.compile(
            DraftLayer.forward, dynamic=False, fullgraph=True, backend=backend
        )

    def stack(self) -> list[DraftLayer]:
        """The layers, from the noise on."""
        return [layer for layer in self.layers if isinstance(layer, DraftLayer)]

    def context(self, features_BSF: Tensor) -> Tensor:
        """The context features [B, S, h], computed once and shared by all layers."""
        out: Tensor = self.hidden_norm(self.fc(features_BSF))
        return out

    def forward(
        self,
        noise_BQh: Tensor,
        features_BSF: Tensor,
        context_position_BS: Tensor,
        block_position_BQ: Tensor,
        attend: Attend,
    ) -> Tensor:
        """Hidden states [B, Q, h] of every slot, before the final norm."""
        dtype = noise_BQh.dtype
        context_BSh = self.context(features_BSF)
        position_BT = torch.cat((context_position_BS, block_position_BQ), dim=1)
        whole = rope_table(self.shape, position_BT, dtype)
        length = context_position_BS.shape[1]
        block = (whole[0][:, :, length:], whole[1][:, :, length:])
        x_BQh = noise_BQh
        if self._layer is not DraftLayer.forward and torch.is_grad_enabled():
            # The first layer needs no gradient of its input, but a graph of its own would cost
            # ten seconds of a cold start; this costs half a percent of a step.
            x_BQh = x_BQh.detach().requires_grad_()
        for layer in self.layers:
            x_BQh = self._layer(layer, x_BQh, context_BSh, block, whole, attend)
        return x_BQh


def new_drafter(
    shape: Shape, layers: int, features: int, *, seed: int, device: torch.device, dtype: torch.dtype
) -> Drafter:
    """A drafter with fresh weights, made where it will train.

    Weights are normal, 0.02, and those that end a residual smaller with the depth.
    """
    with torch.device("meta"):
        drafter = Drafter(shape, layers, features)
    drafter.to_empty(device=device)
    generator = torch.Generator(device).manual_seed(seed)
    scale = (2 * layers) ** -0.5
    with torch.no_grad():
        for name, parameter in drafter.named_parameters():
            residual = name.endswith(("wo.weight", "down.weight"))
            if parameter.dim() == 1:
                parameter.fill_(1.0)
            else:
                parameter.normal_(0, 0.02 * (scale if residual else 1.0), generator=generator)
    return drafter.to(dtype)


def attend_dense(mask: Tensor) -> Attend:
    """Attention by a boolean table [B, 1, Q, T], for the CPU."""

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        grouped = q.shape[1] != k.shape[1]
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=grouped)

    return attend


def attend_flex(mask: "BlockMask") -> Attend:
    """Attention by flex attention; to be called from compiled code only, else it is dense."""
    from torch.nn.attention.flex_attention import flex_attention

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        # A head of keys for each head of queries: the backward kernel gives each head of keys a
        # block to itself, and shared heads would leave most of the device waiting for the last.
        group = q.shape[1] // k.shape[1]
        out = flex_attention(q, _shared(k, group), _shared(v, group), block_mask=mask)
        assert isinstance(out, Tensor)
        return out

    return attend


def _shared(x_BKTD: Tensor, group: int) -> Tensor:
    return x_BKTD[:, :, None].expand(-1, -1, group, -1, -1).flatten(1, 2)


def start_compilers() -> None:
    """Start the compiler's worker processes, which need seconds, before anything is compiled.

    A kernel that is wanted before they are ready is compiled alone, in this process.
    """
    from torch._inductor.async_compile import maybe_warm_pool

    maybe_warm_pool()


def assert_never_dense() -> None:
    """Fail loudly where flex attention ran uncompiled, which is dense and ten times slower."""
    from torch.nn.attention import flex_attention

    shown: set[str] = getattr(flex_attention, "_WARNINGS_SHOWN", set())
    if "flex_attention_performance" in shown:
        raise RuntimeError(
            "flex attention ran uncompiled (dense) in this process: a compiled function was "
            "skipped, most often after a recompile limit or an FX trace in another thread"
        )
