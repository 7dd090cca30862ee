"""A drafter as SGLang and vLLM load DFlash: config.json and model.safetensors.

`python -m trainer export --checkpoint FOLDER --out FOLDER`. It owns the names on that side
and checks what it wrote by loading it back. Embedding and head are not in it: they are the
target's.
"""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from trainer.config import Config, ConfigError
from trainer.drafter import Drafter
from trainer.hf import LAYER_PLACES, halves
from trainer.layers import Shape
from trainer.pair import Pair
from trainer.restore import restore

OUTER = ("fc.weight", "hidden_norm.weight", "norm.weight")
MAX_POSITIONS = 40960
"""A server takes longer contexts by its own setting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """What was written."""

    folder: Path
    step: int
    weights: int


def export(source: Path, out: Path, *, force: bool = False) -> Exported:
    """Write the drafter of the checkpoint `source`, or of the best one in that folder.

    Raises ConfigError and TargetError as `restore`; ConfigError where an export lies in `out`
    already and `force` does not say that it may go.
    """
    there = [name for name in ("config.json", "model.safetensors") if (out / name).exists()]
    if there and not force:
        raise ConfigError(
            f"--out: {out} has a {there[0]} already; give another folder, or --force to replace it"
        )
    found = restore(source, ends_only=True)
    write(found.pair, found.config, out)
    check(found.pair, out)
    count = sum(parameter.numel() for parameter in found.pair.drafter.parameters())
    return Exported(folder=out, step=found.step, weights=count)


def write(pair: Pair, config: Config, out: Path) -> None:
    """Write config.json and model.safetensors, in bfloat16."""
    from safetensors.torch import save_file

    out.mkdir(parents=True, exist_ok=True)
    weights = {
        name: tensor.to(torch.bfloat16).contiguous().clone()
        for name, tensor in their_weights(pair.drafter).items()
    }
    save_file(weights, out / "model.safetensors", metadata={"format": "pt"})
    text = json.dumps(their_config(pair, config), indent=2)
    (out / "config.json").write_text(text + "\n")
    # The library makes its file for its owner alone; a server may be another user.
    shutil.copymode(out / "config.json", out / "model.safetensors")


def their_weights(drafter: Drafter) -> dict[str, Tensor]:
    """The drafter's weights under their names there; what is one matrix here is two there."""
    mine = dict(drafter.named_parameters())
    out = {name: mine[name].detach() for name in OUTER}
    for number in range(len(drafter.layers)):
        for theirs, (ours, half) in LAYER_PLACES.items():
            name = f"layers.{number}.{ours}"
            if name in mine:
                out[f"layers.{number}.{theirs}"] = mine[name].detach().chunk(halves(name))[half]
    return out


def their_config(pair: Pair, config: Config) -> dict[str, Any]:
    """config.json as DFlash's own: a Qwen3 stack, its block and which target layers feed it."""
    shape = pair.drafter.shape
    count = len(pair.drafter.layers)
    rope: dict[str, Any] = {"rope_type": "default", "rope_theta": shape.rope_theta}
    if shape.rope_scaling is not None:
        factor, low, high, length = shape.rope_scaling
        rope |= {
            "rope_type": "llama3", "factor": factor, "low_freq_factor": low,
            "high_freq_factor": high, "original_max_position_embeddings": int(length),
        }  # fmt: skip
    windowed = pair.window > 0
    return {
        "architectures": ["DFlashDraftModel"],
        "model_type": "qwen3",
        "block_size": pair.block,
        "dflash_config": {
            "block_size": pair.block,
            "mask_token_id": pair.mask_token,
            "target_layer_ids": list(pair.layers),
        },
        "num_target_layers": pair.target.decoder.shape.layers,
        "num_hidden_layers": count,
        "hidden_size": shape.hidden,
        "intermediate_size": shape.ffn,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "vocab_size": shape.vocab,
        "rms_norm_eps": shape.eps,
        "rope_theta": shape.rope_theta,
        "rope_parameters": rope,
        "rope_scaling": None if rope["rope_type"] == "default" else rope,
        "max_position_embeddings": MAX_POSITIONS,
        "attention_bias": False,
        "attention_dropout": 0.0,
        "hidden_act": "silu",
        "is_causal": windowed,
        "layer_types": ["sliding_attention" if windowed else "full_attention"] * count,
        "sliding_window": pair.window if windowed else None,
        "use_sliding_window": windowed,
        "tie_word_embeddings": False,
        "use_cache": True,
        "dtype": "bfloat16",
        "torch_dtype": "bfloat16",
        "target_digest": pair.target.digest,
        "thinking": config.corpus.thinking,
    }


def read(folder: Path, dtype: torch.dtype) -> Drafter:
    """An exported drafter, from its files alone. Raises ConfigError."""
    from safetensors.torch import load_file

    config = json.loads((folder / "config.json").read_text())
    scaling = config["rope_scaling"]
    keys = ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings")
    shape = Shape(
        vocab=config["vocab_size"], hidden=config["hidden_size"],
        ffn=config["intermediate_size"], layers=config["num_target_layers"],
        heads=config["num_attention_heads"], kv_heads=config["num_key_value_heads"],
        head_dim=config["head_dim"], rope_theta=config["rope_theta"],
        eps=config["rms_norm_eps"],
        rope_scaling=tuple(float(scaling[key]) for key in keys) if scaling else None,  # type: ignore[arg-type]  # four of them
    )  # fmt: skip
    features = len(config["dflash_config"]["target_layer_ids"])
    drafter = Drafter(shape, config["num_hidden_layers"], features).to(dtype)
    weights = load_file(folder / "model.safetensors")
    with torch.no_grad():
        for name, slot in their_weights(drafter).items():
            if name not in weights or weights[name].shape != slot.shape:
                raise ConfigError(f"{folder}: weight {name} is missing or of another shape")
            slot.copy_(weights.pop(name))
    if weights:
        raise ConfigError(f"{folder}: weight {min(weights)} has no place in a drafter")
    return drafter


def check(pair: Pair, folder: Path) -> None:
    """Load what was written and compare every weight. Raises ConfigError."""
    back = their_weights(read(folder, torch.bfloat16))
    for name, tensor in their_weights(pair.drafter).items():
        if not torch.equal(back[name], tensor.to(torch.bfloat16)):
            raise ConfigError(f"{folder}: weight {name} does not read back as written")
