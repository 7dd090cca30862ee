"""The trained model: a short stack whose every layer sees the target's features as keys.

It owns the drafter's layers and the way context enters them (KV injection). It knows no
loss, no anchors and no cache policy; which key a query sees is the caller's `attend`.

Shapes: B rows, S context positions, Q block slots, h hidden, F features * h,
H heads, K key-value heads, D head width.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

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

    def queries(self, q_BQm: Tensor, table: tuple[Tensor, Tensor]) -> Tensor:
        """Queries [B, H, Q, D] of projected block states."""
        return rotate(self.q_norm(split_heads(q_BQm, self.head_dim)), table)

    def keys_values(self, kv_BTm: Tensor, table: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """Keys and values [B, K, T, D] of projected context features or block states."""
        k, v = kv_BTm.chunk(2, dim=-1)
        return (
            rotate(self.k_norm(split_heads(k, self.head_dim)), table),
            split_heads(v, self.head_dim),
        )

    def mix(
        self, x_BQh: Tensor, q: Tensor, key: Tensor, value: Tensor, attend: Attend
    ) -> tuple[Tensor, Tensor]:
        """`x` with what its queries attend to, and that behind the norm of the feed-forward."""
        x_BQh = x_BQh + self.wo(join_heads(attend(q, key, value)))
        return x_BQh, self.post_norm(x_BQh)

    def attended(
        self, x_BQh: Tensor, q_BQm: Tensor, kv_BTm: Tensor, block_table: tuple[Tensor, Tensor],
        whole_table: tuple[Tensor, Tensor], attend: Attend,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """From the projections over whole context and blocks to `mix`: what is compiled."""
        key, value = self.keys_values(kv_BTm, whole_table)
        return self.mix(x_BQh, self.queries(q_BQm, block_table), key, value, attend)

    def project(self, context_BSh: Tensor, x_BQh: Tensor) -> tuple[Tensor, Tensor]:
        """Queries of the block states, and keys and values of context and block states.

        The context is not passed through the input norm; both go through one product.
        """
        y_BQh = self.input_norm(x_BQh)
        return self.wq(y_BQh), self.wkv(torch.cat((context_BSh, y_BQh), dim=1))

    def project_noise(
        self, context_BSh: Tensor, x_BQh: Tensor, block: int
    ) -> tuple[Tensor, Tensor]:
        """`project` of noise: of each block only the anchor differs, so the rest is one row."""
        num, length = context_BSh.shape[:2]
        anchor_nh = x_BQh.unflatten(1, (-1, block))[:, :, 0].flatten(0, 1)
        y_nh = self.input_norm(torch.cat((anchor_nh, x_BQh[0, 1:2])))
        kv = self.wkv(torch.cat((context_BSh.flatten(0, 1), y_nh)))
        kv_BSm = kv[: num * length].unflatten(0, (num, length))
        kv_BQm = _laid_out(kv[num * length :], num, block)
        return _laid_out(self.wq(y_nh), num, block), torch.cat((kv_BSm, kv_BQm), dim=1)


def _laid_out(x_nm: Tensor, rows: int, block: int) -> Tensor:
    """Each block's anchor and then the last row again and again, [B, Q, m]."""
    anchor_BN1m = x_nm[:-1].view(rows, -1, 1, x_nm.shape[-1])
    rest = x_nm[-1].expand(rows, anchor_BN1m.shape[1], block - 1, -1)
    return torch.cat((anchor_BN1m, rest), dim=2).flatten(1, 2)


class Drafter(nn.Module):
    """fc and its norm, the layers, and the norm before the target's head."""

    def __init__(self, shape: Shape, num_layers: int, num_features: int) -> None:
        super().__init__()
        self.shape = shape
        self.fc = nn.Linear(num_features * shape.hidden, shape.hidden, bias=False)
        self.hidden_norm = RMSNorm(shape.hidden, shape.eps)
        self.layers = nn.ModuleList(DraftLayer(shape) for _ in range(num_layers))
        self.norm = RMSNorm(shape.hidden, shape.eps)
        self._attended: Callable[..., tuple[Tensor, Tensor]] = DraftLayer.attended

    def compile_layers(self, backend: str = "inductor") -> None:
        """Compile one layer's attention for all: one graph for each shape and gradient mode.

        A recompilation beyond the limit fails instead of running the dense attention.
        """
        from torch._dynamo import config

        config.recompile_limit = 64
        config.fail_on_recompile_limit_hit = True
        self._attended = torch.compile(
            DraftLayer.attended, dynamic=False, fullgraph=True, backend=backend
        )

    def stack(self) -> list[DraftLayer]:
        """The layers, from the noise on."""
        return [layer for layer in self.layers if isinstance(layer, DraftLayer)]

    def context(self, features_BSF: Tensor) -> Tensor:
        """The context features [B, S, h], computed once and shared by all layers."""
        out: Tensor = self.hidden_norm(self.fc(features_BSF))
        return out

    def forward(
        self, noise_BQh: Tensor, features_BSF: Tensor, context_position_BS: Tensor,
        block_position_BQ: Tensor, attend: Attend, *, block: int = 0, row_M: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        """Hidden states before the final norm: of every slot [B, Q, h], or of `row_M` [M, h].

        With `block`, the noise of each block is its anchor and then always the same row.
        """
        context_BSh = self.context(features_BSF)
        position_BT = torch.cat((context_position_BS, block_position_BQ), dim=1)
        whole = rope_table(self.shape, position_BT, noise_BQh.dtype)
        length = context_position_BS.shape[1]
        table = (whole[0][:, :, length:], whole[1][:, :, length:])
        x_BQh = noise_BQh
        for number, layer in enumerate(self.stack()):
            if number == 0 and block:
                projected = layer.project_noise(context_BSh, x_BQh, block)
            else:
                projected = layer.project(context_BSh, x_BQh)
            if number == 0 and torch.is_grad_enabled():
                # The first layer needs no gradient of its input, but compiled code would need a
                # graph of its own for that.
                x_BQh = x_BQh.detach().requires_grad_()
            x_BQh, z_BQh = self._attended(layer, x_BQh, *projected, table, whole, attend)
            if number == len(self.layers) - 1 and row_M is not None:
                # Nothing but the loss reads the last layer: only its slots go on.
                return layer.ffn(chosen(x_BQh, row_M), chosen(z_BQh, row_M))
            x_BQh = layer.ffn(x_BQh, z_BQh)
        return x_BQh


def chosen(x_BQh: Tensor, row_M: Tensor) -> Tensor:
    """Rows of the flattened `x` [M, h]; a row named twice must get no gradient."""
    out: Tensor = _Chosen.apply(x_BQh.flatten(0, 1), row_M)
    return out


class _Chosen(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x_Rh: Tensor, row_M: Tensor) -> Tensor:
        ctx.save_for_backward(row_M)
        ctx.size = len(x_Rh)
        return x_Rh.index_select(0, row_M)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,), (row_M,) = grads, ctx.saved_tensors
        # A copy, where autograd's own would add, which on CUDA needs atomic additions.
        return grad.new_zeros(ctx.size, grad.shape[1]).index_copy_(0, row_M, grad), None


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
