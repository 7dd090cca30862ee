"""Train the byte-level target on text that every machine has.

`python -m trainer pretrain-target` made the shipped weights/byte-target.pt. It owns that
recipe only; the drafter is trained in train.py.
"""

import math
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from trainer.config import ConfigError, OptimConfig
from trainer.decoder import Decoder
from trainer.layers import Shape
from trainer.muon import Muon
from trainer.optim import learning_rate
from trainer.targets import BYTE_VOCAB, END, save_target
from trainer.textfiles import read_texts

SCHEDULE = 10_000
"""Steps that the schedule is divided into, however many are taken."""


def _told(default: Any, says: str) -> Any:
    """A field with what the command line's help says of it."""
    return field(default=default, metadata={"help": says})


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Sizes and length of a pretraining."""

    out: Path
    source: str = _told("stdlib", "a file or folder of text; stdlib: Python's own sources")
    steps: int = _told(3000, "optimizer steps")
    seconds: int = _told(0, "train for so many seconds instead of --steps; 0: by steps")
    hidden: int = _told(96, "width of the model; a multiple of 2 x --heads")
    layers: int = _told(5, "blocks of the model")
    heads: int = _told(4, "query heads of each block")
    kv_heads: int = _told(2, "key and value heads, by which --heads can be divided")
    ffn: int = _told(192, "inner width of the feed-forward")
    length: int = _told(192, "bytes of a text window")
    batch: int = _told(16, "windows of a step")
    lr: float = _told(8e-3, "peak learning rate")
    seed: int = _told(1, "of the weights and of the windows' places")
    threads: int = _told(1, "threads that share a batch, each on a core of its own")

    def check(self) -> None:
        """ConfigError that names the first option with a value that cannot be."""
        for name in ("steps", "hidden", "layers", "heads", "kv_heads", "ffn", "length", "batch"):
            _require(getattr(self, name) >= 1, name, "must be 1 or more")
        _require(self.seconds >= 0, "seconds", "must be 0 or more")
        _require(0 <= self.seed < 2**32, "seed", "must be from 0 to 4294967295")
        _require(math.isfinite(self.lr) and self.lr > 0, "lr", "must be above 0")
        _require(1 <= self.threads <= self.batch, "threads", "must be from 1 to --batch")
        _require(self.hidden % (2 * self.heads) == 0, "hidden", "must be a multiple of 2 x --heads")
        _require(self.heads % self.kv_heads == 0, "kv_heads", "must divide --heads")


def _require(good: bool, name: str, wanted: str) -> None:
    if not good:
        raise ConfigError(f"--{name.replace('_', '-')}: {wanted}")


def pretrain(recipe: Recipe) -> float:
    """Train, save to `recipe.out`, and return the held-out loss in nats a byte."""
    # Threads inside torch's operators wait for each other at every one: on two cores with a sixth
    # of one taken by others, they were nearly three times slower than alone.
    torch.set_num_threads(1)
    torch.manual_seed(recipe.seed)
    decoder = Decoder(_shape(recipe))
    _draw_weights(decoder)
    config = OptimConfig(lr=recipe.lr, weight_decay=0.1)
    optimizer = Muon(decoder.parameters(), config, plain=[decoder.embed.weight])
    train, held = _stream(recipe.source, held_out=False), _stream(recipe.source, held_out=True)
    shortest = min(len(train), len(held))
    _require(recipe.length < shortest - 1, "length", f"must be under {shortest - 1}, of this text")
    count = sum(p.numel() for p in decoder.parameters())
    print(f"target of {count:,} weights; {len(train):,} bytes of text", flush=True)
    crowd, began = _Crowd(decoder, recipe), time.monotonic()
    share, step = 0.0, 0
    while share < 1:
        loss = crowd.backward(_windows(train, recipe, step))
        optimizer.step(learning_rate(config, round(share * SCHEDULE), SCHEDULE))
        step, spent = step + 1, time.monotonic() - began
        share = spent / recipe.seconds if recipe.seconds else step / recipe.steps
        if step % 100 == 0 or share >= 1:
            print(f"step {step}  loss {loss:.4f}  {spent:.0f} s", flush=True)
    crowd.close()
    with torch.no_grad():
        losses = [float(_nats(decoder, _windows(held, recipe, -1 - i))) for i in range(20)]
    mean = math.fsum(losses) / len(losses)
    save_target(recipe.out, decoder)
    print(f"held-out loss {mean:.4f} nats a byte; saved {recipe.out}", flush=True)
    return mean


class _Crowd:
    """A batch's gradients by several threads, whose decoders have the same weights."""

    def __init__(self, decoder: Decoder, recipe: Recipe) -> None:
        others = [Decoder(_shape(recipe)) for _ in range(1, recipe.threads)]
        for other in others:
            for mine, theirs in zip(other.parameters(), decoder.parameters(), strict=True):
                mine.data = theirs.data
        self._decoders = [decoder, *others]
        self._threads = ThreadPoolExecutor(recipe.threads)

    def backward(self, windows: Tensor) -> float:
        """Leave the gradients of the mean loss on the first decoder's weights; returns it."""
        parts = windows.tensor_split(len(self._decoders))
        shares = [len(part) / len(windows) for part in parts]
        losses = list(self._threads.map(_share, self._decoders, parts, shares))
        everybodys = zip(*(decoder.parameters() for decoder in self._decoders), strict=True)
        for first, *others in everybodys:
            for other in others:
                assert first.grad is not None
                assert other.grad is not None
                first.grad += other.grad
                other.grad = None
        return math.fsum(losses)

    def close(self) -> None:
        """End the threads."""
        self._threads.shutdown()


def _share(decoder: Decoder, part: Tensor, share: float) -> float:
    loss = _nats(decoder, part) * share
    loss.backward()
    return float(loss.detach())


def _draw_weights(decoder: Decoder) -> None:
    """Normal, 0.05; those that end a residual smaller with the depth."""
    small = 0.05 * (2 * len(decoder.layers)) ** -0.5
    for name, parameter in decoder.named_parameters():
        if parameter.dim() == 2:
            ends = name.endswith(("wo.weight", "down.weight"))
            torch.nn.init.normal_(parameter, 0, small if ends else 0.05)


def _shape(recipe: Recipe) -> Shape:
    return Shape(
        vocab=BYTE_VOCAB,
        hidden=recipe.hidden,
        ffn=recipe.ffn,
        layers=recipe.layers,
        heads=recipe.heads,
        kv_heads=recipe.kv_heads,
        head_dim=recipe.hidden // recipe.heads,
        rope_theta=10000.0,
        eps=1e-6,
        tied=True,
    )


def _stream(source: str, *, held_out: bool) -> Tensor:
    joined = bytearray()
    ends = []
    for text in read_texts(source, held_out=held_out):
        joined += text.encode() + b"\0"
        ends.append(len(joined) - 1)
    stream = torch.frombuffer(joined, dtype=torch.uint8).to(torch.int16)
    stream[torch.tensor(ends, dtype=torch.long)] = END
    return stream


def _windows(stream: Tensor, recipe: Recipe, step: int) -> Tensor:
    generator = torch.Generator().manual_seed(recipe.seed * 1_000_003 + step + 1_000)
    start = torch.randint(len(stream) - recipe.length - 1, (recipe.batch,), generator=generator)
    return torch.stack([stream[s : s + recipe.length + 1] for s in start.tolist()]).long()


def _nats(decoder: Decoder, window: Tensor) -> Tensor:
    logits, _ = decoder(window[:, :-1])
    assert logits is not None
    return F.cross_entropy(logits.flatten(0, 1), window[:, 1:].flatten())
