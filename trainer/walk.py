"""The acceptance length, walked: a -> a + accepted + 1 from the first answered token.

Acceptance at anchors drawn uniformly flatters a drafter; only this walk is what a server
sees. A drafted token counts when it equals the answer's own (sample-match). It owns the
walk and the drafts for it, and trains nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from trainer.blocks import make_blocks
from trainer.config import CorpusConfig
from trainer.corpus import Document
from trainer.packing import pack_rows
from trainer.pair import Pair
from trainer.step import pack_batch, slot_hidden

ANCHORS_AT_ONCE = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """The one size that all documents are padded to: compiled code sees one shape."""

    length: int
    anchors: int

    @staticmethod
    def of(documents: Sequence[Document]) -> "Sizes":
        """The longest document's length, and at most ANCHORS_AT_ONCE blocks at a time."""
        answer = max((len(d.tokens) - d.prompt for d in documents), default=2)
        return Sizes(
            length=max((len(d.tokens) for d in documents), default=2),
            anchors=min(ANCHORS_AT_ONCE, max(1, answer - 1)),
        )


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


def walk_document(
    pair: Pair, document: Document, sizes: Sizes, features_BSF: Tensor
) -> tuple[int, int]:
    """Tokens given out and verifying passes over one document's answer, greedy drafts."""
    drafts_Nj = drafts_everywhere(pair, document, sizes, features_BSF)
    answer = document.tokens[document.prompt :]
    return walk(accepted_counts(drafts_Nj, answer), len(answer))


def acceptance_length(pair: Pair, documents: Sequence[Document]) -> float:
    """Tokens for each verifying pass over all `documents`, with features made here."""
    sizes = Sizes.of(documents)
    tokens = passes = 0
    for document in documents:
        features = document_features(pair, document, sizes)
        given, took = walk_document(pair, document, sizes, features)
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


@torch.no_grad()
def document_features(pair: Pair, document: Document, sizes: Sizes) -> Tensor:
    """The target's features [1, length, F] of a document; those of its padding mean nothing."""
    padded = torch.zeros(1, sizes.length, dtype=torch.long)
    padded[0, : len(document.tokens)] = torch.tensor(document.tokens)
    _, features = pair.target.decoder(
        padded.to(pair.device), feature_layers=pair.layers, want_logits=False
    )
    assert features is not None
    return features


def drafts_everywhere(
    pair: Pair, document: Document, sizes: Sizes, features_BSF: Tensor
) -> list[list[int]]:
    """The drafted tokens after every answered token but the last, by the training forward."""
    parts = logits_everywhere(pair, document, sizes, features_BSF)
    return [drafted for logits in parts for drafted in logits.argmax(dim=-1).tolist()]


@torch.no_grad()
def logits_everywhere(
    pair: Pair, document: Document, sizes: Sizes, features_BSF: Tensor
) -> list[Tensor]:
    """The logits [blocks, drafted slots, V] that those are the highest of, part by part."""
    stop = len(document.tokens) - 1
    rows = pack_rows(
        [[document]], CorpusConfig(row_tokens=sizes.length, prompt_tokens=1, answer_tokens=2)
    )
    frozen = pair.frozen
    parts: list[Tensor] = []
    for start in range(document.prompt, stop, sizes.anchors):
        at_N = torch.arange(start, start + sizes.anchors)
        blocks = make_blocks(
            rows, at_N.clamp(max=stop - 1)[None], (at_N < stop)[None], pair.block, pair.mask_token
        )
        packed = pack_batch(
            rows, blocks, block=pair.block, window=pair.window, device=features_BSF.device
        )
        hidden = slot_hidden(pair.drafter, frozen, features_BSF, packed.to(features_BSF.device))
        slots: Tensor = hidden.unflatten(1, (-1, pair.block))[0, : stop - start, 1:]
        parts.append(pair.drafter.norm(slots) @ frozen.head_Vh.T)
    return parts
