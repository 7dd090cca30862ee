"""Decoding with a drafter: KV-cached drafts, verified by the target without loss.

The tokens are the target's own, greedy or at a temperature: a drafted token is kept only
where it equals the target's choice at that position, and that choice depends on the
position and the seed alone. It owns both caches and when to stop; any drafts may be
verified, the drafter's or others.

Shapes: b block slots, n tokens verified at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor

from trainer.decoder import Cache
from trainer.drafter import attend_dense
from trainer.layers import rope_table
from trainer.pair import Pair
from trainer.targets import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Chooser:
    """The target's choice at a position: the likeliest, or drawn by noise of that position."""

    temperature: float = 0.0
    seed: int = 0

    def choose(self, logits_nV: Tensor, first: int) -> list[int]:
        """The tokens chosen for positions `first` on, from the logits that predict them."""
        logits_nV = logits_nV.double().cpu()
        if self.temperature > 0:
            logits_nV = logits_nV / self.temperature + torch.stack(
                [self._noise(first + i, logits_nV.shape[1]) for i in range(len(logits_nV))]
            )
        out: list[int] = logits_nV.argmax(dim=-1).tolist()
        return out

    def _noise(self, position: int, vocab: int) -> Tensor:
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + position)
        uniform_V = torch.rand(vocab, generator=generator, dtype=torch.float64)
        return -(-uniform_V.clamp(min=1e-300).log()).log()


@dataclass(slots=True)
class Trace:
    """What a speculative decoding did, pass after pass."""

    anchors: list[int] = field(default_factory=list)
    drafts: list[list[int]] = field(default_factory=list)
    given: list[int] = field(default_factory=list)
    """Tokens given out by each verifying pass."""

    @property
    def acceptance(self) -> float:
        """Tokens for each verifying pass, 0 where there was none."""
        return sum(self.given) / len(self.given) if self.given else 0.0


class Session:
    """One sequence being decoded: the prompt is read, and its first token chosen, at once.

    Between passes both caches hold exactly the positions before the last token, which is
    the next block's anchor.
    """

    @torch.no_grad()
    def __init__(self, pair: Pair, prompt: Sequence[int], limit: int, chooser: Chooser) -> None:
        self.pair, self.prompt, self.limit, self.chooser = pair, len(prompt), limit, chooser
        self.tokens = list(prompt)
        self.cache = Cache()
        self.context = Cache()
        """The drafter's keys and values of the context features, layer by layer."""
        logits = self._read(list(prompt))
        self._take(chooser.choose(logits[-1:], len(prompt)))

    @property
    def answer(self) -> list[int]:
        """The tokens after the prompt."""
        return self.tokens[self.prompt :]

    @property
    def done(self) -> bool:
        """Whether the answer has its length or its end token."""
        return (
            len(self.answer) >= self.limit or self.tokens[-1] in self.pair.target.end_tokens
        )  # fmt: skip

    @torch.no_grad()
    def draft(self) -> list[int]:
        """The drafter's block - 1 tokens after the last one, in one pass over its cache."""
        pair, anchor = self.pair, len(self.tokens) - 1
        drafter, frozen, block = pair.drafter, pair.frozen, pair.block
        noise = torch.full((1, block), pair.mask_token, device=pair.device)
        noise[0, 0] = self.tokens[-1]
        position = torch.arange(anchor, anchor + block, device=pair.device)[None]
        x_BQh = F.embedding(noise, frozen.embed_Vh)
        table = rope_table(drafter.shape, position, x_BQh.dtype)
        attend = attend_dense(self._sees(anchor))
        for index, layer in enumerate(drafter.stack()):
            y_BQh = layer.input_norm(x_BQh)
            key, value = layer.keys_values(layer.wkv(y_BQh), table)
            key = torch.cat((self.context.keys[index], key), dim=2)
            value = torch.cat((self.context.values[index], value), dim=2)
            queries = layer.queries(layer.wq(y_BQh), table)
            x_BQh = layer.ffn(*layer.mix(x_BQh, queries, key, value, attend))
        logits = drafter.norm(x_BQh[0, 1:]) @ frozen.head_Vh.T
        out: list[int] = logits.argmax(dim=-1).tolist()
        return out

    @torch.no_grad()
    def verify(self, drafted: Sequence[int]) -> int:
        """Read the last token and `drafted` by the target; returns how many tokens it gave.

        Those that equal the target's own choices are kept, and its next choice after them.
        """
        anchor = len(self.tokens) - 1
        logits = self._read([self.tokens[-1], *drafted])
        chosen = self.chooser.choose(logits, anchor + 1)
        count = 0
        while count < len(drafted) and drafted[count] == chosen[count]:
            count += 1
        self._take(chosen[: count + 1])
        self.cache.crop(len(self.tokens) - 1)
        self.context.crop(len(self.tokens) - 1)
        return len(self.tokens) - 1 - anchor

    def _take(self, chosen: Sequence[int]) -> None:
        for token in chosen:
            if self.done and len(self.tokens) > self.prompt:
                break
            self.tokens.append(token)

    def _read(self, fed: list[int]) -> Tensor:
        """Feed the target; its features go to the drafter's cache. Logits [n, V]."""
        pair, start = self.pair, self.cache.length()
        logits, features = pair.target.decoder(
            torch.tensor([fed], device=pair.device), cache=self.cache, feature_layers=pair.layers
        )
        assert logits is not None
        assert features is not None
        context = pair.drafter.context(features)
        position = torch.arange(start, start + len(fed), device=pair.device)[None]
        table = rope_table(pair.drafter.shape, position, context.dtype)
        for index, layer in enumerate(pair.drafter.stack()):
            self.context.append(index, *layer.keys_values(layer.wkv(context), table))
        return logits[0]

    def _sees(self, anchor: int) -> Tensor:
        """Which key each slot sees [1, 1, b, anchor + b]: masks.py's rule for one block."""
        block, window = self.pair.block, self.pair.window
        allowed = torch.ones(block, anchor + block, dtype=torch.bool, device=self.pair.device)
        if window:
            slot = torch.arange(block, device=self.pair.device)[:, None]
            key = torch.arange(anchor + block, device=self.pair.device)
            allowed = (key >= anchor + slot - (window - 1)) & (key <= anchor + slot)
            inside = key >= anchor
            allowed = torch.where(inside, slot >= key - anchor, allowed)
        return allowed[None, None]


def decode(
    pair: Pair, prompt: Sequence[int], limit: int, chooser: Chooser
) -> tuple[Session, Trace]:
    """Decode `limit` tokens, or up to the end token, with the drafter."""
    session, trace = Session(pair, prompt, limit, chooser), Trace()
    while not session.done:
        trace.anchors.append(len(session.tokens) - 1)
        trace.drafts.append(session.draft())
        trace.given.append(session.verify(trace.drafts[-1]))
    return session, trace


@torch.no_grad()
def decode_plainly(
    target: Target, prompt: Sequence[int], limit: int, chooser: Chooser
) -> list[int]:
    """The target's own answer, token by token: what speculative decoding must give."""
    cache, answer = Cache(), list[int]()
    fed, device = list(prompt), target.decoder.embed.weight.device
    while len(answer) < limit and (not answer or answer[-1] not in target.end_tokens):
        logits, _ = target.decoder(torch.tensor([fed], device=device), cache=cache)
        assert logits is not None
        fed = chooser.choose(logits[0, -1:], len(prompt) + len(answer))
        answer += fed
    return answer


def prompt_lookup(tokens: Sequence[int], count: int, longest: int = 3) -> list[int]:
    """Up to `count` tokens that followed the latest earlier place like the end of `tokens`.

    A drafter without weights, to compare with: the last `longest` tokens are looked for
    first, then fewer.
    """
    for size in range(longest, 0, -1):
        tail = list(tokens[-size:])
        for start in range(len(tokens) - size - 1, -1, -1):
            if list(tokens[start : start + size]) == tail:
                return list(tokens[start + size : start + size + count])
    return []
