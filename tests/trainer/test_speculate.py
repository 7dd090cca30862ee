"""Speculative decoding: the training path's drafts, the target's own tokens, exact caches."""

from collections.abc import Sequence

import pytest
import torch

from trainer.blocks import make_blocks
from trainer.config import CorpusConfig
from trainer.corpus import Document
from trainer.decoder import Decoder
from trainer.drafter import new_drafter
from trainer.layers import Shape
from trainer.packing import pack_rows
from trainer.pair import Pair
from trainer.speculate import Chooser, Session, decode, decode_plainly, prompt_lookup
from trainer.step import pack_batch, slot_hidden
from trainer.targets import Target, freeze
from trainer.walk import Sizes, accepted_counts, document_features, drafts_everywhere, walk

CPU = torch.device("cpu")
BLOCK, MASK, VOCAB = 5, 30, 31
PROMPT = [3, 1, 4, 1, 5, 9, 2, 6]
LIMIT = 21


def pair(window: int = 0, ends: tuple[int, ...] = ()) -> Pair:
    """A random target and drafter in float64."""
    shape = Shape(
        vocab=VOCAB, hidden=24, ffn=40, layers=5, heads=4, kv_heads=2, head_dim=6,
        rope_theta=100.0, eps=1e-6,
    )  # fmt: skip
    torch.manual_seed(11)
    decoder = Decoder(shape)
    for parameter in decoder.parameters():
        if parameter.dim() == 2:
            torch.nn.init.normal_(parameter, 0, 0.4)
    freeze(decoder)
    target = Target(decoder=decoder.double(), end_tokens=ends, mask_token=MASK, digest="random")
    drafter = new_drafter(shape, 2, 2, seed=7, device=CPU, dtype=torch.float64)
    with torch.no_grad():
        for parameter in drafter.parameters():
            parameter.mul_(8 if parameter.dim() == 2 else 1)
    return Pair(
        drafter=drafter, target=target, layers=(1, 3), block=BLOCK, window=window, mask_token=MASK
    )


def assert_caches_end_before_the_anchor(session: Session) -> None:
    """Target's and drafter's caches hold the positions before the last token, no more."""
    for cache in (session.cache, session.context):
        assert {key.shape[2] for key in cache.keys} == {len(session.tokens) - 1}
        assert {value.shape[2] for value in cache.values} == {len(session.tokens) - 1}


def training_drafts(model: Pair, tokens: Sequence[int], anchors: list[int]) -> list[list[int]]:
    """The drafts at `anchors` by one training forward over the finished sequence."""
    document = Document(tokens=tuple(tokens), prompt=len(PROMPT), looped=False)
    sizes = Sizes(length=len(tokens), anchors=len(anchors))
    rows = pack_rows(
        [[document]], CorpusConfig(row_tokens=len(tokens), prompt_tokens=1, answer_tokens=2)
    )
    anchor = torch.tensor([anchors])
    blocks = make_blocks(rows, anchor, torch.ones_like(anchor, dtype=torch.bool), BLOCK, MASK)
    packed = pack_batch(rows, blocks, block=BLOCK, window=model.window, device=CPU)
    with torch.no_grad():
        features = document_features(model, document, sizes)
        hidden = slot_hidden(model.drafter, model.frozen, features, packed.to(CPU))
        slots = hidden.unflatten(1, (-1, BLOCK))[0, :, 1:]
        logits = model.drafter.norm(slots) @ model.frozen.head_Vh.T
    out: list[list[int]] = logits.argmax(dim=-1).tolist()
    return out


@pytest.mark.parametrize("window", [0, 6])
def test_cached_drafts_equal_the_training_forward_at_the_same_anchors(window: int) -> None:
    """After the prefill, full acceptance, full rejection, part of a block, and at the limit."""
    model = pair(window)
    own = decode_plainly(model.target, PROMPT, LIMIT, Chooser())
    session = Session(model, PROMPT, LIMIT, Chooser())
    anchors, drafts = [], []
    given: list[int] = []
    kept = [BLOCK - 1, 0, 2, BLOCK - 1, 0, 1]
    while not session.done:
        at = len(session.answer)
        anchors.append(len(session.tokens) - 1)
        drafts.append(session.draft())
        # Real drafts of a random drafter hardly hold, so what is verified is scripted.
        count = kept[len(given) % len(kept)]
        truth = [*own, *[0] * BLOCK][at : at + BLOCK - 1]
        wrong = [(token + 1) % VOCAB for token in truth]
        given.append(session.verify(truth[:count] + wrong[count:]))
        assert_caches_end_before_the_anchor(session)
    assert session.answer == own
    assert given == [BLOCK, 1, 3, BLOCK, 1, 2, 3], "the limit cuts the last, wholly right block"
    assert len({tuple(d) for d in drafts}) > len(drafts) // 2, "drafts that do not vary prove less"
    assert drafts == training_drafts(model, session.tokens, anchors)


def test_an_end_token_inside_a_block_ends_the_answer_there() -> None:
    """Drafted tokens after the end token are dropped, though the target would keep them."""
    own = decode_plainly(pair().target, PROMPT, 24, Chooser())
    end = own[3]
    assert end not in own[:3]
    model = pair(ends=(end,))
    session = Session(model, PROMPT, 24, Chooser())
    drafted = session.draft()
    assert session.verify(own[1:BLOCK]) == 3
    assert session.answer == own[:4] == decode_plainly(model.target, PROMPT, 24, Chooser())
    assert session.done
    assert_caches_end_before_the_anchor(session)
    assert [drafted] == training_drafts(model, session.tokens, [len(PROMPT)])


@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize("limit", [1, 2, 30])
def test_the_output_is_the_targets_own(temperature: float, limit: int) -> None:
    """Greedy and by sample-match: the same tokens as without a drafter, for any limit."""
    model = pair()
    chooser = Chooser(temperature=temperature, seed=5)
    session, trace = decode(model, PROMPT, limit, chooser)
    assert session.answer == decode_plainly(model.target, PROMPT, limit, chooser)
    assert len(session.answer) == limit
    assert sum(trace.given) == limit - 1


def test_sampling_differs_by_seed_and_follows_the_distribution() -> None:
    """A position's choice is drawn: by its seed, with the frequencies of the softmax."""
    logits = torch.tensor([[0.0, 1.0, 2.0]]).expand(4000, -1)
    chosen = torch.tensor(Chooser(temperature=1.0, seed=1).choose(logits, 0))
    share = torch.bincount(chosen, minlength=3) / len(chosen)
    assert torch.allclose(share.double(), logits[0].double().softmax(-1), atol=0.03)
    other = Chooser(temperature=1.0, seed=2).choose(logits, 0)
    assert chosen.tolist() != other


def test_the_walk_counts_what_decoding_does() -> None:
    """Walked acceptance over a finished greedy answer: the passes that decoding took."""
    model = pair()
    session, trace = decode(model, PROMPT, 24, Chooser())
    document = Document(tokens=tuple(session.tokens), prompt=len(PROMPT), looped=False)
    sizes = Sizes(length=len(session.tokens) + 7, anchors=10)
    features = document_features(model, document, sizes)
    drafts = drafts_everywhere(model, document, sizes, features)
    assert len(drafts) == 23
    assert walk(accepted_counts(drafts, session.answer), 24) == (23, len(trace.given))


def test_padding_to_one_size_changes_no_draft() -> None:
    """Longer padding and other chunks of anchors give the same drafts."""
    model = pair()
    own = decode_plainly(model.target, PROMPT, 20, Chooser(temperature=1.0))
    document = Document(tokens=(*PROMPT, *own), prompt=len(PROMPT), looped=False)
    drafts = []
    for sizes in (Sizes(length=28, anchors=19), Sizes(length=64, anchors=7)):
        features = document_features(model, document, sizes)
        assert features.shape[1] == sizes.length
        drafts.append(drafts_everywhere(model, document, sizes, features))
    assert drafts[0] == drafts[1]


def test_prompt_lookup_repeats_what_followed_before() -> None:
    """The latest longest match is continued; nothing is drafted where there is none."""
    assert prompt_lookup([1, 2, 3, 9, 1, 2, 3], 3) == [9, 1, 2]
    assert prompt_lookup([5, 1, 6, 1], 2) == [6, 1]
    assert prompt_lookup([1, 2, 3], 2) == []
