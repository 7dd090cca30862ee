"""The frozen target: a causal decoder of the Llama, Qwen2 or Qwen3 kind.

It owns the forward pass, its cache and the features of chosen layers. It reads no file
(targets.py does) and is never trained here but by pretrain.py.

Shapes: B batch, S positions, h hidden, H heads, K key-value heads, D head width.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trainer.layers import FeedForward, RMSNorm, Shape, join_heads, rope_table, rotate, split_heads


@dataclass(slots=True)
class Cache:
    """Keys and values of each layer so far, [B, K, length, D]; grown by a forward pass."""

    keys: list[Tensor] = field(default_factory=list)
    values: list[Tensor] = field(default_factory=list)

    def length(self) -> int:
        """Positions held."""
        return self.keys[0].shape[2] if self.keys else 0

    def append(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Add the new positions of one layer and return all of them."""
        if layer == len(self.keys):
            self.keys.append(key)
            self.values.append(value)
        else:
            self.keys[layer] = torch.cat((self.keys[layer], key), dim=2)
            self.values[layer] = torch.cat((self.values[layer], value), dim=2)
        return self.keys[layer], self.values[layer]

    def crop(self, length: int) -> None:
        """Forget every position from `length` on."""
        self.keys = [key[:, :, :length] for key in self.keys]
        self.values = [value[:, :, :length] for value in self.values]


class DecoderLayer(nn.Module):
    """Attention and feed-forward, each behind a norm and beside a residual."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.head_dim = shape.head_dim
        q_width, kv_width = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
        self.input_norm = RMSNorm(shape.hidden, shape.eps)
        self.wq = nn.Linear(shape.hidden, q_width, bias=shape.qkv_bias)
        self.wkv = nn.Linear(shape.hidden, 2 * kv_width, bias=shape.qkv_bias)
        self.wo = nn.Linear(q_width, shape.hidden, bias=False)
        self.q_norm = RMSNorm(shape.head_dim, shape.eps) if shape.qk_norm else nn.Identity()
        self.k_norm = RMSNorm(shape.head_dim, shape.eps) if shape.qk_norm else nn.Identity()
        self.post_norm = RMSNorm(shape.hidden, shape.eps)
        self.ffn = FeedForward(shape.hidden, shape.ffn)

    def forward(
        self,
        x_BSh: Tensor,
        table: tuple[Tensor, Tensor],
        mask: Tensor | None,
        cache: Cache | None,
        layer: int,
    ) -> Tensor:
        """One layer; `mask` [B, 1, S, T] is True where attention is allowed, None: causal."""
        y_BSh = self.input_norm(x_BSh)
        q = rotate(self.q_norm(split_heads(self.wq(y_BSh), self.head_dim)), table)
        k, v = self.wkv(y_BSh).chunk(2, dim=-1)
        k = rotate(self.k_norm(split_heads(k, self.head_dim)), table)
        v = split_heads(v, self.head_dim)
        if cache is not None:
            k, v = cache.append(layer, k, v)
        causal = mask is None and q.shape[2] > 1
        mixed = F.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, is_causal=causal, enable_gqa=q.shape[1] != k.shape[1]
        )
        x_BSh = x_BSh + self.wo(join_heads(mixed))
        out: Tensor = self.ffn(x_BSh, self.post_norm(x_BSh))
        return out


class Decoder(nn.Module):
    """Embedding, layers, norm and head."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.embed = nn.Embedding(shape.vocab, shape.hidden)
        self.layers = nn.ModuleList(DecoderLayer(shape) for _ in range(shape.layers))
        self.norm = RMSNorm(shape.hidden, shape.eps)
        self.head = nn.Linear(shape.hidden, shape.vocab, bias=False)
        if shape.tied:
            self.head.weight = self.embed.weight

    def forward(
        self,
        tokens_BS: Tensor,
        *,
        doc_BS: Tensor | None = None,
        position_BS: Tensor | None = None,
        cache: Cache | None = None,
        first_B: Tensor | None = None,
        feature_layers: Sequence[int] = (),
        want_logits: bool = True,
    ) -> tuple[Tensor | None, Tensor | None]:
        """Logits [B, S, V] and the named layers' outputs, concatenated [B, S, layers * h].

        With `doc_BS` no position sees another document; with `first_B` none sees what lies
        before its row's first, which is padding. Without logits the pass ends at the last
        named layer.
        """
        past = cache.length() if cache is not None else 0
        length = tokens_BS.shape[1]
        if position_BS is None:
            position_BS = torch.arange(past, past + length, device=tokens_BS.device)[None]
            if first_B is not None:
                position_BS = (position_BS - first_B[:, None]).clamp(min=0)
        x_BSh = self.embed(tokens_BS)
        table = rope_table(self.shape, position_BS, x_BSh.dtype)
        mask = _causal_mask(length, past, doc_BS, first_B, tokens_BS.device)
        features: dict[int, Tensor] = {}
        last = len(self.layers) if want_logits else max(feature_layers) + 1
        for index, layer in enumerate(self.layers[:last]):
            x_BSh = layer(x_BSh, table, mask, cache, index)
            if index in feature_layers:
                features[index] = x_BSh
        joined = (
            torch.cat([features[i] for i in feature_layers], dim=-1) if feature_layers else None
        )
        return (self.head(self.norm(x_BSh)) if want_logits else None), joined


def _causal_mask(
    length: int, past: int, doc_BS: Tensor | None, first_B: Tensor | None, device: torch.device
) -> Tensor | None:
    query = torch.arange(past, past + length, device=device)[:, None]
    key = torch.arange(past + length, device=device)[None, :]
    if doc_BS is not None:
        same = doc_BS[:, :, None] == doc_BS[:, None, :]
        return (same & (query >= key))[:, None]
    if first_B is not None:
        # Padding sees itself: a row of the table without any key has no result.
        real = (key >= first_B[:, None, None]) | (key == query)
        return (real & (query >= key))[:, None]
    return (query >= key)[None, None] if past and length > 1 else None


def spread_layers(count: int, target_layers: int) -> tuple[int, ...]:
    """The `count` target layers that feed a drafter, evenly from layer 1 to the third last.

    Raises ValueError where they would repeat.
    """
    if count == 1:
        return (target_layers // 2,)
    if target_layers < count + 3:
        raise ValueError(
            f"a target of {target_layers} layers has too few for {count} features: at least "
            f"{count + 3} are needed, or name target.feature_layers"
        )
    return tuple(round(1 + i * (target_layers - 4) / (count - 1)) for i in range(count))
