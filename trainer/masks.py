"""Which key a drafter's query may see: as a table for the CPU, as a rule for flex attention.

Keys are the S context positions followed by the block slots; queries are the slots.
A block sees its own document's context strictly before its anchor (the target's feature
at the anchor is not known yet at inference), and itself. It owns this rule only, and the
tiles that flex attention may skip or need not test, computed from the sorted anchors
without looking at every query and key.

Shapes: B batch, S context, N blocks, Q = N * block slots, T = S + Q keys; tiles of TILE
queries by TILE keys, Qt by Tt of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from torch.nn.attention.flex_attention import BlockMask

TILE = 128


def dense_mask(
    anchor_BN: Tensor, keep_BN: Tensor, doc_BS: Tensor, block: int, window: int = 0
) -> Tensor:
    """The rule as booleans [B, 1, Q, S + Q]; True where attention is allowed.

    `window` above 0 limits the context to that many positions back and makes the block causal.
    """
    device = anchor_BN.device
    num_blocks, length = anchor_BN.shape[1], doc_BS.shape[1]
    slot_Q = torch.arange(num_blocks * block, device=device) % block
    owner_Q = torch.arange(num_blocks * block, device=device) // block
    anchor_BQ1 = anchor_BN[:, owner_Q, None]
    doc_BQ1 = doc_BS.gather(1, anchor_BN)[:, owner_Q, None]
    at_S = torch.arange(length, device=device)
    context = (at_S < anchor_BQ1) & (doc_BS[:, None, :] == doc_BQ1)
    inside = (owner_Q[:, None] == owner_Q[None, :]).expand(anchor_BN.shape[0], -1, -1)
    if window:
        context = context & (at_S >= anchor_BQ1 + slot_Q[:, None] - (window - 1))
        inside = inside & (slot_Q[:, None] >= slot_Q[None, :])
    allowed = torch.cat((context, inside), dim=-1) & keep_BN[:, owner_Q, None]
    return allowed[:, None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spans:
    """What each block sees of the context, as a span; a document lies in one piece."""

    first_BN: Tensor
    """Start of the anchor's document."""
    stop_BN: Tensor
    """The anchor itself, not included; equal to `first` for a block that is not kept."""
    own_BN: Tensor
    """The block's own number; -1, which no key has, for one that is not kept."""


def spans_of(anchor_BN: Tensor, keep_BN: Tensor, doc_BS: Tensor) -> Spans:
    """The context span of every block."""
    at_S = torch.arange(doc_BS.shape[1])
    begins_BS = torch.ones_like(doc_BS, dtype=torch.bool)
    begins_BS[:, 1:] = doc_BS[:, 1:] != doc_BS[:, :-1]
    first_BN = (at_S * begins_BS).cummax(dim=1).values.gather(1, anchor_BN)
    number_N = torch.arange(anchor_BN.shape[1])
    return Spans(
        first_BN=first_BN.int(),
        stop_BN=torch.where(keep_BN, anchor_BN, first_BN).int(),
        own_BN=torch.where(keep_BN, number_N, -1).int(),
    )


def tile_tables(spans: Spans, length: int, block: int, window: int) -> tuple[Tensor, Tensor]:
    """Tiles [B, 1, Qt, Tt] that hold some allowed pair but not all, and that hold all."""
    num_blocks = spans.first_BN.shape[1]
    queries = num_blocks * block
    start_q = torch.arange(0, queries, TILE)
    last_q = ((start_q + TILE).clamp(max=queries) - 1) // block
    member_qn = start_q[:, None] // block + torch.arange(TILE // block + 2)
    member_qn = member_qn.minimum(last_q[:, None])
    first = spans.first_BN[:, member_qn, None]
    stop = spans.stop_BN[:, member_qn, None]
    loose, tight = first, first
    if window:
        loose = first.maximum(stop - (window - 1))
        tight = first.maximum(stop + block - 1 - (window - 1))
    start_k = torch.arange(0, length + queries, TILE)
    touched = (loose < start_k + TILE) & (stop > start_k) & (stop > loose)
    covered = (tight <= start_k) & (stop >= start_k + TILE)
    # The block's own keys lie at S + its queries; a tile there is never full.
    own = (start_k + TILE > length + start_q[:, None]) & (
        start_k < length + (start_q[:, None] + TILE).clamp(max=queries)
    )
    full = covered.all(dim=2)
    return ((touched.any(dim=2) | own) & ~full)[:, None], full[:, None]


def flex_tables(
    anchor_BN: Tensor, keep_BN: Tensor, doc_BS: Tensor, block: int, window: int
) -> list[Tensor]:
    """What `flex_mask` reads: the spans, then number and order of the tiles of each kind."""
    spans = spans_of(anchor_BN, keep_BN, doc_BS)
    partial, full = tile_tables(spans, doc_BS.shape[1], block, window)
    ordered = [
        table
        for tiles in (partial, full, partial.mT, full.mT)
        for table in (tiles.sum(-1).int(), _indices(tiles))
    ]
    return [spans.first_BN, spans.stop_BN, spans.own_BN, *ordered]


def flex_mask(tables: Sequence[Tensor], *, length: int, block: int, window: int) -> "BlockMask":
    """The rule for flex attention over `length` context positions, from its tables."""
    from torch.nn.attention.flex_attention import BlockMask

    first, stop, own, *tiles = tables
    num_blocks = first.shape[1]

    def allowed(batch: Tensor, _head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        owner = (query // block).clamp(max=num_blocks - 1)
        inside = (key >= length) & ((key - length) // block == own[batch, owner])
        context = (key >= first[batch, owner]) & (key < stop[batch, owner])
        if window:
            slot = query % block
            context = context & (key >= stop[batch, owner] + slot - (window - 1))
            inside = inside & (slot >= (key - length) % block)
        return context | inside

    return BlockMask(
        seq_lengths=(num_blocks * block, length + num_blocks * block),
        kv_num_blocks=tiles[0],
        kv_indices=tiles[1],
        full_kv_num_blocks=tiles[2],
        full_kv_indices=tiles[3],
        q_num_blocks=tiles[4],
        q_indices=tiles[5],
        full_q_num_blocks=tiles[6],
        full_q_indices=tiles[7],
        BLOCK_SIZE=(TILE, TILE),
        mask_mod=allowed,
    )


def _indices(tiles: Tensor) -> Tensor:
    """The True tiles of each row first, in order; what follows is not read."""
    return tiles.int().argsort(dim=-1, descending=True, stable=True).int()
