"""The byte-level target's pretraining: by one thread or several the same, and by the clock."""

from pathlib import Path

import pytest
import torch

from trainer.pretrain import Recipe, pretrain
from trainer.targets import load_target


def recipe(tmp_path: Path, name: str, **changes: int) -> Recipe:
    """A tiny target on two short texts."""
    texts = tmp_path / "texts"
    texts.mkdir(exist_ok=True)
    for number in range(30):
        (texts / f"{number}.txt").write_text(f"the {number} words of text number {number} " * 30)
    sizes = {
        "steps": 6, "hidden": 16, "layers": 4, "heads": 2, "kv_heads": 1, "ffn": 24,
        "length": 24, "batch": 6,
    } | changes  # fmt: skip
    return Recipe(out=tmp_path / f"{name}.pt", source=str(texts), **sizes)


def test_threads_share_a_batch_and_give_the_gradients_of_one(tmp_path: Path) -> None:
    """Two threads with unequal shares end at the weights that one thread ends at."""
    losses, weights = [], []
    for name, threads in (("one", 1), ("four", 4)):
        losses.append(pretrain(recipe(tmp_path, name, threads=threads)))
        target = load_target(str(tmp_path / f"{name}.pt"), torch.device("cpu"), torch.float32)
        weights.append(torch.cat([p.flatten() for p in target.decoder.parameters()]))
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    # Kept in bfloat16: a difference in the last digits may round the other way.
    assert (weights[0] - weights[1]).abs().max() < 1e-2
    assert losses[0] < 5.4, "six steps learn something: chance is 5.55"


def test_a_pretraining_by_the_clock_ends_by_it(tmp_path: Path) -> None:
    """With `seconds` it stops after them, however many steps that were."""
    loss = pretrain(recipe(tmp_path, "clock", seconds=1, steps=10**9))
    assert loss < 5.4
    assert (tmp_path / "clock.pt").is_file()
