"""The byte-level target's pretraining: by one thread or several the same, and by the clock."""

from pathlib import Path

import pytest
import torch

from trainer.__main__ import main
from trainer.config import ConfigError
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


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *((name, "0") for name in ("steps", "hidden", "layers", "heads", "kv-heads", "ffn")),
        *((name, "0") for name in ("length", "batch", "threads")),
        *(("seconds", "-1"), ("seed", "-1"), ("lr", "0"), ("lr", "nan"), ("threads", "17")),
        *(("hidden", "98"), ("heads", "5"), ("kv-heads", "3")),
    ],
)
def test_a_number_that_cannot_be_is_one_sentence(
    option: str, value: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It names an option, leaves with 2 and writes nothing."""
    out = tmp_path / "target.pt"
    assert main(["pretrain-target", "--out", str(out), f"--{option}", value]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: --")
    assert said.count("\n") == 1
    assert not out.exists()


def test_a_window_longer_than_the_text_is_refused(tmp_path: Path) -> None:
    """The option is named, and how long it may be."""
    with pytest.raises(ConfigError, match="--length: must be under"):
        pretrain(recipe(tmp_path, "long", length=10**6))


def test_the_help_says_what_each_number_is_and_its_default(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Units and defaults are there, without a look into the source."""
    with pytest.raises(SystemExit):
        main(["pretrain-target", "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    assert "--steps N optimizer steps (3000)" in shown
    assert "seconds instead of --steps; 0: by steps (0)" in shown
