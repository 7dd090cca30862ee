"""Documents: prompts from text, answers from the target itself.

It owns how prompts are cut, answers made, ended and cached. Packing into rows is in
packing.py.
"""

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor

from trainer.config import CorpusConfig
from trainer.decoder import Cache
from trainer.targets import Target
from trainer.textfiles import CorpusError, read_texts

LOOP_PERIOD = 24
LOOP_LENGTH = 48
BATCH = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A prompt and the target's answer to it."""

    tokens: tuple[int, ...]
    prompt: int
    """How many of the tokens are the prompt's."""
    looped: bool
    """The answer was ended where it began to repeat itself."""


def make_documents(
    target: Target,
    config: CorpusConfig,
    *,
    held_out: bool,
    seed: int,
    cache: Path,
    between: Callable[[], None],
) -> list[Document]:
    """Answers of the target to prompts from the corpus, read from `cache` if made before.

    `between` is called between batches and may raise. Answers of fewer than two tokens
    are left out, since no block fits in them.
    """
    count = config.eval_samples if held_out else config.samples
    key = json.dumps([target.digest, asdict(config), held_out, seed], sort_keys=True)
    file = cache / f"answers-{hashlib.sha256(key.encode()).hexdigest()[:16]}.json"
    if file.is_file():
        return [
            Document(**{**d, "tokens": tuple(d["tokens"])}) for d in json.loads(file.read_text())
        ]
    prompts = _prompts(target, config, count, held_out=held_out, seed=seed)
    generator = torch.Generator().manual_seed(seed * 2 + held_out)
    documents: list[Document] = []
    for start in range(0, count, BATCH):
        between()
        answers = sample_answers(target, prompts[start : start + BATCH], config, generator)
        for prompt, answer in zip(prompts[start : start + BATCH].tolist(), answers, strict=True):
            kept, looped = end_answer(answer, target.end_tokens)
            if len(kept) >= 2:
                tokens = (*prompt, *kept)
                documents.append(Document(tokens=tokens, prompt=len(prompt), looped=looped))
    cache.mkdir(parents=True, exist_ok=True)
    draft = file.with_suffix(f".{os.getpid()}")
    draft.write_text(json.dumps([asdict(document) for document in documents]))
    draft.rename(file)
    return documents


def _prompts(
    target: Target, config: CorpusConfig, count: int, *, held_out: bool, seed: int
) -> Tensor:
    texts = read_texts(config.source, held_out=held_out)
    generator = torch.Generator().manual_seed(seed * 2 + held_out + 1_000_003)
    prompts: list[list[int]] = []
    for _ in range(100 * count):
        text = texts[int(torch.randint(len(texts), (), generator=generator))]
        at = int(torch.randint(max(1, len(text) - config.prompt_tokens), (), generator=generator))
        # A token holds a character or more in every vocabulary here, or less in a byte's.
        tokens = target.encode(text[at : at + 8 * config.prompt_tokens])[: config.prompt_tokens]
        if len(tokens) == config.prompt_tokens:
            prompts.append(tokens)
        if len(prompts) == count:
            return torch.tensor(prompts)
    raise CorpusError(
        f"corpus.source: {config.source}: too few texts of {config.prompt_tokens} tokens; "
        "lower corpus.prompt_tokens"
    )


@torch.no_grad()
def sample_answers(
    target: Target, prompt_BP: Tensor, config: CorpusConfig, generator: torch.Generator
) -> list[list[int]]:
    """`answer_tokens` tokens after each prompt, sampled on the CPU from `generator`."""
    device = target.decoder.embed.weight.device
    cache = Cache()
    fed, answer = prompt_BP.to(device), []
    ended = torch.zeros(len(prompt_BP), dtype=torch.bool)
    for _ in range(config.answer_tokens):
        logits, _ = target.decoder(fed, cache=cache)
        assert logits is not None
        token_B = choose(logits[:, -1].float().cpu(), config.temperature, generator)
        answer.append(token_B)
        for end in target.end_tokens:
            ended |= token_B == end
        if bool(ended.all()):
            break
        fed = token_B[:, None].to(device)
    out: list[list[int]] = torch.stack(answer, dim=1).tolist()
    return out


def choose(logits_BV: Tensor, temperature: float, generator: torch.Generator) -> Tensor:
    """One token of each row: the likeliest at temperature 0, else drawn."""
    if temperature == 0:
        return logits_BV.argmax(dim=-1)
    return torch.multinomial((logits_BV / temperature).softmax(-1), 1, generator=generator)[:, 0]


def end_answer(answer: list[int], end_tokens: tuple[int, ...]) -> tuple[list[int], bool]:
    """Cut an answer after its end token, or where it begins to loop; and whether it did."""
    for index, token in enumerate(answer):
        if token in end_tokens:
            answer = answer[: index + 1]
            break
    start = loop_start(answer)
    return (answer, False) if start is None else (answer[:start], True)


def loop_start(tokens: list[int]) -> int | None:
    """Where the first repetition begins: LOOP_LENGTH tokens equal to those a period before.

    Periods up to LOOP_PERIOD count. The first turn of the loop is kept by a cut there.
    """
    first: int | None = None
    for period in range(1, LOOP_PERIOD + 1):
        run = 0
        for index in range(period, len(tokens)):
            run = run + 1 if tokens[index] == tokens[index - period] else 0
            if run == LOOP_LENGTH:
                start = index - LOOP_LENGTH + 1
                first = start if first is None else min(first, start)
                break
    return first
