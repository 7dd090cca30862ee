"""Checkpoints: whole or absent, the newest valid one found, the older ones pruned."""

import resource
import signal
from pathlib import Path

import pytest
import torch

from trainer import checkpoint
from trainer.checkpoint import CheckpointError, Saver


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


def test_a_full_disk_is_said_and_leaves_the_earlier_ones(tmp_path: Path) -> None:
    """What torch.save makes of it is not what the user reads, and the last good one stays."""
    good = checkpoint.save(tmp_path, 1, {"w": torch.zeros(2)}, {}, keep=9)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    # A limit on a file's size fails a write as a full disk does, with another number.
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, before[1]))
    try:
        with pytest.raises(CheckpointError, match=r"step-00000002: not saved: .*File too large"):
            checkpoint.save(tmp_path, 2, {"w": torch.rand(500_000)}, {}, keep=9)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    assert checkpoint.newest_valid(tmp_path, pytest.fail) == good
    assert not list(tmp_path.glob(".step*"))


def test_the_best_stays_among_the_newest(tmp_path: Path) -> None:
    """The longest acceptance is kept beyond `keep`, until a longer one comes."""
    for step, acceptance in ((1, 1.5), (2, 2.5), (3, 2.0), (4, 1.9)):
        checkpoint.save(tmp_path, step, {}, {}, keep=1, acceptance=acceptance)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["step-00000002", "step-00000004"]
    assert checkpoint.best(tmp_path) == tmp_path / "step-00000002"
    checkpoint.save(tmp_path, 5, {}, {}, keep=1, acceptance=3.0)
    assert [p.name for p in tmp_path.iterdir()] == ["step-00000005"]


def test_a_save_beside_training_holds_the_state_as_it_was(tmp_path: Path) -> None:
    """What training changes after `begin` is not in the file; the times are told."""
    weight = torch.zeros(1000)
    saver = Saver(tmp_path, keep=2)
    saver.begin(7, {"w": [weight], "step": 7}, {}, acceptance=1.0)
    weight.fill_(9)
    saved = saver.finish()
    assert saved is not None
    assert saved.seconds > 0
    assert saved.stood_still >= 0
    state, _ = checkpoint.load(saved.path)
    assert state["w"][0].abs().sum() == 0
    assert saver.finish() is None
    saver.close()


def test_a_save_that_failed_beside_training_is_told(tmp_path: Path) -> None:
    """Its error comes out when it is waited for."""
    (tmp_path / "step-00000002").write_text("a file where the folder should go")
    saver = Saver(tmp_path, keep=1)
    saver.begin(2, {"w": torch.zeros(2)}, {}, acceptance=1.0)
    with pytest.raises(CheckpointError, match="earlier ones are intact"):
        saver.finish()
    saver.close()
