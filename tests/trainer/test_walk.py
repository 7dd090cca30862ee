"""The acceptance length is walked, block by block."""

from pathlib import Path

import pytest
import torch

from trainer.decoder import spread_layers
from trainer.targets import load_target
from trainer.walk import accepted_counts, walk


def test_the_walk_goes_from_each_bonus_token_on() -> None:
    """It starts at the first answered token and jumps over what was accepted plus one."""
    assert walk([3, 9, 9, 9, 0, 1, 9, 0], 8) == (7, 3)
    assert walk([0, 0, 0], 4) == (3, 3)
    assert walk([7], 1) == (0, 0)


def test_a_drafted_token_counts_only_up_to_the_first_miss() -> None:
    """Hits after a miss, or past the answer's end, do not count."""
    answer = [1, 2, 3, 4]
    assert accepted_counts([[2, 3, 9], [9, 4, 9], [4, 9, 9]], answer) == [2, 0, 1]


def test_feature_layers_are_spread_and_never_repeat() -> None:
    """The layers of the published drafters, and a refusal where they would repeat."""
    assert spread_layers(5, 36) == (1, 9, 17, 25, 33)
    assert spread_layers(1, 36) == (18,)
    assert spread_layers(2, 5) == (1, 2)
    with pytest.raises(ValueError, match="at least 8 are needed"):
        spread_layers(5, 6)


def test_the_shipped_target_is_small_and_knows_its_text() -> None:
    """Under a megabyte, and far better than chance on Python it has not seen."""
    path = Path("trainer/weights/byte-target.pt")
    assert (Path(__file__).parents[2] / path).stat().st_size < 1_000_000
    target = load_target("builtin", torch.device("cpu"), torch.float32)
    text = "def add(first, second):\n    return first + second\n\n\nclass Point:\n    pass\n"
    tokens = torch.tensor([target.words.encode(text)])
    logits, _ = target.decoder(tokens)
    assert logits is not None
    nats = torch.nn.functional.cross_entropy(logits[0, :-1], tokens[0, 1:])
    assert float(nats) < 2.5
