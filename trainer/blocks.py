"""Anchors, noise and labels: which block predicts what, and with what right.

A block starts at an anchor (a token already known) and drafts the tokens after it. It
draws on the CPU from a generator of the step's own, so that a resumed run draws the same.

Shapes: B rows, S positions, N block slots of a row, j = block - 1 drafted slots.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Packed documents, on the CPU."""

    tokens_BS: Tensor
    doc_BS: Tensor
    """The document at each position; -1 is padding."""
    position_BS: Tensor
    """Position within the document."""
    supervised_BS: Tensor
    """True where the token belongs to the target's own answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """The blocks of one batch."""

    anchor_BN: Tensor
    """Sorted within a row, so that neighbours share whole tiles of the mask."""
    keep_BN: Tensor
    """False for a slot of the batch that holds no block."""
    noise_BQ: Tensor
    """[anchor token, mask token, ...] of each block, Q = N * block."""
    position_BQ: Tensor
    label_BNj: Tensor
    valid_BNj: Tensor
    """A slot counts only while every token from the anchor to it is the answer's own."""


def draw_anchors(
    rows: Rows, per_document: int, capacity: int, generators: Sequence[torch.Generator]
) -> tuple[Tensor, Tensor]:
    """Up to `per_document` anchors of each document, sorted, padded to `capacity` with keep False.

    Each row draws from a generator of its own, whichever rank it falls to. Returns anchors
    [B, N] and keep [B, N]. Raises ValueError where a row has more blocks than `capacity`,
    which the packer prevents.
    """
    candidate_BS = anchor_candidates(rows)
    anchors, keeps = [], []
    for candidate_S, doc_S, generator in zip(candidate_BS, rows.doc_BS, generators, strict=True):
        chosen = []
        for doc in range(int(doc_S.max()) + 1):
            at = (candidate_S & (doc_S == doc)).nonzero().flatten()
            pick = torch.randperm(len(at), generator=generator)[:per_document]
            chosen.append(at[pick].sort().values)
        row = torch.cat(chosen) if chosen else torch.zeros(0, dtype=torch.long)
        if len(row) > capacity:
            raise ValueError(f"a row has {len(row)} blocks but {capacity} slots: raise row_anchors")
        keep = torch.arange(capacity) < len(row)
        # Empty slots repeat the last anchor: they stay sorted and inside the row.
        filler = row[-1:] if len(row) else torch.zeros(1, dtype=torch.long)
        anchors.append(torch.cat((row, filler.expand(capacity - len(row)))))
        keeps.append(keep)
    return torch.stack(anchors), torch.stack(keeps)


def anchor_candidates(rows: Rows) -> Tensor:
    """True at each position [B, S] that is the answer's and is followed by the answer's."""
    own, doc = rows.supervised_BS, rows.doc_BS
    candidate = torch.zeros_like(own)
    candidate[:, :-1] = own[:, :-1] & own[:, 1:] & (doc[:, :-1] == doc[:, 1:])
    return candidate


def make_blocks(
    rows: Rows, anchor_BN: Tensor, keep_BN: Tensor, block: int, mask_token: int
) -> Blocks:
    """Lay a block at every anchor of `rows`."""
    num_rows, length = rows.tokens_BS.shape
    slot = torch.arange(block)
    at_BNb = anchor_BN[:, :, None] + slot
    inside = at_BNb < length
    flat = at_BNb.clamp(max=length - 1).flatten(1)
    token_BNb = rows.tokens_BS.gather(1, flat).view_as(at_BNb)
    own = rows.supervised_BS.gather(1, flat).view_as(at_BNb) & inside & keep_BN[:, :, None]
    doc_BNb = rows.doc_BS.gather(1, flat).view_as(at_BNb)
    own = own & (doc_BNb == doc_BNb[:, :, :1])
    valid_BNb = own.cumprod(dim=-1).bool()
    noise_BNb = torch.full_like(token_BNb, mask_token)
    noise_BNb[:, :, 0] = token_BNb[:, :, 0]
    position_BN1 = rows.position_BS.gather(1, anchor_BN)[:, :, None]
    return Blocks(
        anchor_BN=anchor_BN,
        keep_BN=keep_BN,
        noise_BQ=noise_BNb.view(num_rows, -1),
        position_BQ=(position_BN1 + slot).view(num_rows, -1),
        label_BNj=token_BNb[:, :, 1:].contiguous(),
        valid_BNj=valid_BNb[:, :, 1:].contiguous(),
    )
