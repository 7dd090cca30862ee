"""Documents: prompts from text, answers from the target itself.

It owns how prompts are cut, answers made, ended and cached. Packing into rows is in
packing.py.
"""

import hashlib
import itertools
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor

from trainer.config import CorpusConfig
from trainer.decoder import Cache
from trainer.targets import Target
from trainer.textfiles import CorpusError, read_samples

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """The answers to one set of prompts, batch after batch, each kept in a file of its own.

    So a run that was cut goes on with the next batch, and several targets share the work.
    """

    target: Target
    config: CorpusConfig
    held_out: bool
    seed: int
    cache: Path

    @property
    def folder(self) -> Path:
        """Where the batches lie: another target, corpus or seed has another folder."""
        key = json.dumps(
            [self.target.digest, asdict(self.config), self.held_out, self.seed], sort_keys=True
        )
        return self.cache / f"answers-{hashlib.sha256(key.encode()).hexdigest()[:16]}"

    def make(self, between: Callable[[], None], *, share: int = 0, shares: int = 1) -> None:
        """Make this share's batches that are not there yet.

        `between` is called between batches and may raise. Raises CorpusError.
        """
        prompts = _prompts(self.target, self.config, held_out=self.held_out, seed=self.seed)
        self.folder.mkdir(parents=True, exist_ok=True)
        for number in range(share, -(-len(prompts) // BATCH), shares):
            file = self.folder / f"{number:06d}.json"
            if file.is_file():
                continue
            between()
            batch = self._batch(prompts[number * BATCH : (number + 1) * BATCH], number)
            draft = file.with_suffix(f".{os.getpid()}")
            draft.write_text(json.dumps([asdict(document) for document in batch]))
            draft.rename(file)
        if share == 0:
            whole = self.folder / f"batches.{os.getpid()}"
            whole.write_text(str(-(-len(prompts) // BATCH)))
            whole.rename(self.folder / "batches")

    def ready(self) -> bool:
        """Whether every batch is there."""
        count = self.folder / "batches"
        return count.is_file() and all(file.is_file() for file in self._files())

    def read(self) -> list[Document]:
        """All documents, once every batch is there."""
        return [
            Document(**{**line, "tokens": tuple(line["tokens"])})
            for file in self._files()
            for line in json.loads(file.read_text())
        ]

    def _files(self) -> list[Path]:
        count = int((self.folder / "batches").read_text())
        return [self.folder / f"{number:06d}.json" for number in range(count)]

    def _batch(self, prompts: list[list[int]], number: int) -> list[Document]:
        seed = (self.seed * 2 + self.held_out) * 1_000_003 + number
        generator = torch.Generator().manual_seed(seed)
        answers = sample_answers(self.target, prompts, self.config, generator)
        documents = []
        for prompt, answer in zip(prompts, answers, strict=True):
            kept, looped = end_answer(answer, self.target.end_tokens)
            # No block fits in fewer than two tokens.
            if len(kept) >= 2:
                tokens = (*prompt, *kept)
                documents.append(Document(tokens=tokens, prompt=len(prompt), looped=looped))
        return documents


def without_token(mask_token: int, documents: Sequence[Document]) -> list[Document]:
    """The documents whose answers do not hold the drafter's mask token.

    Sampling may draw an unused row once in a great while. Raises CorpusError where a prompt
    holds it, since then it is a word, or where nothing is left.
    """
    kept = [document for document in documents if mask_token not in document.tokens]
    asked = any(mask_token in document.tokens[: document.prompt] for document in documents)
    if asked or not kept:
        raise CorpusError(
            f"drafter.mask_token: {mask_token} occurs in the corpus; name a row of the embedding "
            "that no text uses"
        )
    return kept


def _prompts(target: Target, config: CorpusConfig, *, held_out: bool, seed: int) -> list[list[int]]:
    count = config.eval_samples if held_out else config.samples
    samples = read_samples(config.source, held_out=held_out)
    generator = torch.Generator().manual_seed(seed * 2 + held_out + 1_000_003)
    texts = [sample for sample in samples if isinstance(sample, str)]
    chats = [sample for sample in samples if not isinstance(sample, str)]
    if chats:
        order = torch.randperm(len(chats), generator=generator).tolist()
        asked = (target.words.chat(chats[i], thinking=config.thinking) for i in order)
        fitting = (prompt for prompt in asked if len(prompt) <= config.prompt_tokens)
        prompts = list(itertools.islice(fitting, count))
        missing = 0 if prompts else count
    else:
        prompts = _cut_prompts(target, config, texts, count, generator)
        missing = count - len(prompts)
    if missing:
        raise CorpusError(
            f"corpus.source: {config.source}: too few samples for corpus.prompt_tokens = "
            f"{config.prompt_tokens} (texts must have as many, conversations at most as many); "
            "change it, or give more"
        )
    return prompts


def _cut_prompts(
    target: Target, config: CorpusConfig, texts: list[str], count: int, generator: torch.Generator
) -> list[list[int]]:
    prompts: list[list[int]] = []
    for _ in range(100 * count):
        text = texts[int(torch.randint(len(texts), (), generator=generator))]
        at = int(torch.randint(max(1, len(text) - config.prompt_tokens), (), generator=generator))
        # A token holds a character or more in every vocabulary here, or less in a byte's.
        tokens = target.words.encode(text[at : at + 8 * config.prompt_tokens])
        if len(tokens) >= config.prompt_tokens:
            prompts.append(tokens[: config.prompt_tokens])
        if len(prompts) == count:
            break
    return prompts


@torch.no_grad()
def sample_answers(
    target: Target, prompts: list[list[int]], config: CorpusConfig, generator: torch.Generator
) -> list[list[int]]:
    """`answer_tokens` tokens after each prompt, sampled on the CPU from `generator`.

    Prompts of several lengths are padded on the left, which changes no answer.
    """
    device = target.decoder.embed.weight.device
    longest = max(len(prompt) for prompt in prompts)
    padding = [longest - len(prompt) for prompt in prompts]
    first_B = torch.tensor(padding, device=device) if any(padding) else None
    padded = [[0] * pad + prompt for pad, prompt in zip(padding, prompts, strict=True)]
    cache = Cache()
    fed, answer = torch.tensor(padded, device=device), []
    ended = torch.zeros(len(prompts), dtype=torch.bool)
    for _ in range(config.answer_tokens):
        logits, _ = target.decoder(fed, cache=cache, first_B=first_B)
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
