"""The export: names, shapes and configuration of a DFlash drafter, read back as written."""

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.trainer.conftest import Ended
from trainer.__main__ import main
from trainer.config import ConfigError
from trainer.drafter import Drafter
from trainer.export import export, read

pytestmark = pytest.mark.timeout(700)


@pytest.fixture
def checkpoints(trainer: Callable[..., Ended], tmp_path: Path) -> Path:
    """The checkpoints of a run of four steps."""
    folder = tmp_path / "checkpoints"
    ended = trainer("--set", "total_steps=4", "--set", f"checkpoint_dir={folder}")
    assert ended.code == 0, ended.err
    return folder


def header(file: Path) -> dict[str, Any]:
    """What a safetensors file says of its weights, read without the library."""
    content = file.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    read_back: dict[str, Any] = json.loads(content[8 : 8 + length])
    return read_back


def test_a_drafter_is_exported_and_read_back(checkpoints: Path, tmp_path: Path) -> None:
    """Weights under the names that servers look for, and the same drafts from them."""
    out = tmp_path / "drafter"
    assert main(["export", "--checkpoint", str(checkpoints), "--out", str(out)]) == 0
    weights = header(out / "model.safetensors")
    weights.pop("__metadata__")
    layer = {
        "input_layernorm.weight", "post_attention_layernorm.weight", "self_attn.q_proj.weight",
        "self_attn.k_proj.weight", "self_attn.v_proj.weight", "self_attn.o_proj.weight",
        "self_attn.q_norm.weight", "self_attn.k_norm.weight", "mlp.gate_proj.weight",
        "mlp.up_proj.weight", "mlp.down_proj.weight",
    }  # fmt: skip
    outer = {"fc.weight", "hidden_norm.weight", "norm.weight"}
    assert set(weights) == outer | {f"layers.{i}.{name}" for i in range(2) for name in layer}
    assert {weight["dtype"] for weight in weights.values()} == {"BF16"}
    assert weights["fc.weight"]["shape"] == [96, 2 * 96]
    assert weights["layers.1.self_attn.v_proj.weight"]["shape"] == [48, 96]
    config = json.loads((out / "config.json").read_text())
    assert config["architectures"] == ["DFlashDraftModel"]
    assert config["block_size"] == config["dflash_config"]["block_size"] == 8
    assert config["dflash_config"]["target_layer_ids"] == [1, 2]
    assert config["dflash_config"]["mask_token_id"] == 257
    assert config["num_target_layers"] == 5
    state = torch.load(checkpoints / "step-00000004" / "state.pt", weights_only=True)
    back = read(out, torch.float32)
    assert isinstance(back, Drafter)
    for parameter, master in zip(back.parameters(), state["optimizer"]["masters"], strict=True):
        assert torch.equal(parameter, master.bfloat16().float())


def test_an_export_of_nothing_is_refused(tmp_path: Path) -> None:
    """A folder without a checkpoint is named."""
    with pytest.raises(ConfigError, match="holds no valid checkpoint"):
        export(tmp_path, tmp_path / "out")
    assert main(["export", "--checkpoint", str(tmp_path), "--out", str(tmp_path / "o")]) == 2


def test_an_export_is_replaced_only_when_told(
    checkpoints: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder with an export is refused with the word that replaces it; both files can be read."""
    out = tmp_path / "drafter"
    words = ["export", "--checkpoint", str(checkpoints), "--out", str(out)]
    out.mkdir()
    (out / "config.json").write_text("mine")
    assert main(words) == 2
    assert "--force" in capsys.readouterr().err
    assert (out / "config.json").read_text() == "mine"
    assert main([*words, "--force"]) == 0
    modes = {(out / name).stat().st_mode for name in ("config.json", "model.safetensors")}
    assert len(modes) == 1
