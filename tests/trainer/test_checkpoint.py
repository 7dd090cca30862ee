"""Checkpoints: whole or absent, the newest valid one found, the older ones pruned."""

from pathlib import Path

import pytest
import torch

from trainer import checkpoint
from trainer.checkpoint import CheckpointError


def test_the_newest_are_kept_and_read_back(tmp_path: Path) -> None:
    """Only `keep` remain, and a state reads back as it was."""
    for step in (1, 2, 3):
        checkpoint.save(tmp_path, step, {"w": torch.full((2,), step)}, {"seed": step}, keep=2)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["step-00000002", "step-00000003"]
    newest = checkpoint.newest_valid(tmp_path, pytest.fail)
    assert newest is not None
    state, config = checkpoint.load(newest)
    assert state["w"].tolist() == [3, 3]
    assert config == {"seed": 3}


@pytest.mark.parametrize("damage", ["flip", "cut", "manifest"])
def test_a_damaged_one_is_skipped_with_a_word(tmp_path: Path, damage: str) -> None:
    """A wrong byte, a short file or a torn manifest sends the search to the older one."""
    good = checkpoint.save(tmp_path, 1, {"w": torch.zeros(9)}, {}, keep=5)
    bad = checkpoint.save(tmp_path, 2, {"w": torch.zeros(9)}, {}, keep=5)
    state = bad / "state.pt"
    content = bytearray(state.read_bytes())
    if damage == "flip":
        content[len(content) // 2] ^= 1
        state.write_bytes(content)
    elif damage == "cut":
        state.write_bytes(content[:-1])
    else:
        (bad / "manifest.json").write_text('{"step": 2, "sha')
    words: list[str] = []
    assert checkpoint.newest_valid(tmp_path, words.append) == good
    assert len(words) == 1
    assert str(bad) in words[0]


def test_a_failed_save_leaves_the_earlier_ones(tmp_path: Path) -> None:
    """When a state cannot be written, nothing of it remains and the last good one does."""
    good = checkpoint.save(tmp_path, 1, {"w": torch.zeros(2)}, {}, keep=1)
    (tmp_path / "step-00000002").write_text("a file where the folder should go")
    with pytest.raises(CheckpointError, match="earlier ones are intact"):
        checkpoint.save(tmp_path, 2, {"w": torch.zeros(2)}, {}, keep=1)
    assert checkpoint.newest_valid(tmp_path, pytest.fail) == good
    assert not list(tmp_path.glob(".step*"))
