"""The acceptance length, walked: a -> a + accepted + 1 from the first answered token.

Acceptance at anchors drawn uniformly flatters a drafter; only this walk is what a server
sees. A drafted token counts when it equals the answer's own (sample-match). It owns the
walk and the drafts for it, and trains nothing.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from trainer.blocks import make_blocks
from trainer.config import CorpusConfig
from trainer.corpus import Document
from trainer.drafter import Drafter
from trainer.packing import pack_rows
from trainer.step import Frozen, pack_batch, slot_hidden
from trainer.targets import Target

ANCHORS_AT_ONCE = 64


def walk(accepted: Sequence[int], length: int) -> tuple[int, int]:
    """Tokens given out and verifying passes over an answer of `length` tokens.

    `accepted[i]` is how many drafted tokens hold after answered token i. The first token
    comes from the prefill and counts in neither.
    """
    at = passes = 0
    while at < length - 1:
        at += accepted[at] + 1
        passes += 1
    return length - 1, passes


@torch.no_grad()
def acceptance_length(
    drafter: Drafter,
    frozen: Frozen,
    target: Target,
    layers: Sequence[int],
    documents: Sequence[Document],
    block: int,
    window: int,
    mask_token: int,
) -> float:
    """Tokens for each verifying pass over all `documents`, greedy drafts."""
    tokens = passes = 0
    for document in documents:
        drafts_Nj = drafts_everywhere(
            drafter, frozen, target, layers, document, block, window, mask_token
        )
        answer = document.tokens[document.prompt :]
        given, took = walk(accepted_counts(drafts_Nj, answer), len(answer))
        tokens, passes = tokens + given, passes + took
    return tokens / passes if passes else 0.0


def accepted_counts(drafts_Nj: Sequence[Sequence[int]], answer: Sequence[int]) -> list[int]:
    """How many leading drafted tokens after each answered token equal the answer's."""
    counts = []
    for at, drafted in enumerate(drafts_Nj):
        count = 0
        for token, truth in zip(drafted, answer[at + 1 :], strict=False):
            if token != truth:
                break
            count += 1
        counts.append(count)
    return counts


def drafts_everywhere(
    drafter: Drafter,
    frozen: Frozen,
    target: Target,
    layers: Sequence[int],
    document: Document,
    block: int,
    window: int,
    mask_token: int,
) -> list[list[int]]:
    """The drafted tokens after every answered token but the last, by the training forward."""
    length = len(document.tokens)
    rows = pack_rows(
        [[document]], CorpusConfig(row_tokens=length, prompt_tokens=1, answer_tokens=2)
    )
    device = frozen.embed_Vh.device
    _, features = target.decoder(
        rows.tokens_BS.to(device), feature_layers=layers, want_logits=False
    )
    assert features is not None
    drafts: list[list[int]] = []
    for start in range(document.prompt, length - 1, ANCHORS_AT_ONCE):
        anchor_BN = torch.arange(start, min(start + ANCHORS_AT_ONCE, length - 1))[None]
        blocks = make_blocks(
            rows, anchor_BN, torch.ones_like(anchor_BN, dtype=torch.bool), block, mask_token
        )
        packed = pack_batch(rows, blocks, block=block, window=window, device=device)
        hidden = slot_hidden(drafter, frozen, features, packed.to(device))
        slots: Tensor = hidden.unflatten(1, (-1, block))[0, :, 1:]
        drafts += (drafter.norm(slots) @ frozen.head_Vh.T).argmax(dim=-1).tolist()
    return drafts
