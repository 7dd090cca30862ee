"""Targets from a Hugging Face folder: config.json, safetensors and tokenizer.json.

It owns the names and rules of three families, Llama, Qwen2 and Qwen3, and refuses every
other by name, and every variant of them that the decoder does not compute.
"""

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from trainer.decoder import Decoder
from trainer.layers import Shape

FAMILIES = ("llama", "qwen2", "qwen3")
SAMPLE_BYTES = 1 << 16


class FolderError(ValueError):
    """A folder that cannot be used; its text names the path and the remedy."""


def read_shape(folder: Path) -> Shape:
    """The sizes in `folder`'s config.json. Raises FolderError."""
    config = read_json(folder / "config.json")
    family = config.get("model_type")
    where = f"target.path: {folder}"
    if family not in FAMILIES:
        raise FolderError(
            f"{where}: is a model of family {family}; known are {', '.join(FAMILIES)}"
        )
    for key in ("attention_bias", "mlp_bias", "use_sliding_window", "quantization_config"):
        if config.get(key):
            raise FolderError(f"{where}: config.json has {key}, which is not computed here")
    if config.get("hidden_act", "silu") != "silu":
        raise FolderError(f"{where}: config.json has hidden_act {config['hidden_act']}, not silu")
    heads = config["num_attention_heads"]
    # Newer writers put everything about rotary positions into one object.
    rope = {**(config.get("rope_scaling") or {}), **(config.get("rope_parameters") or {})}
    return Shape(
        vocab=config["vocab_size"],
        hidden=config["hidden_size"],
        ffn=config["intermediate_size"],
        layers=config["num_hidden_layers"],
        heads=heads,
        kv_heads=config.get("num_key_value_heads") or heads,
        head_dim=config.get("head_dim") or config["hidden_size"] // heads,
        rope_theta=float(config.get("rope_theta") or rope.get("rope_theta") or 10000.0),
        eps=config.get("rms_norm_eps", 1e-6),
        tied=bool(config.get("tie_word_embeddings", False)),
        qk_norm=family == "qwen3",
        qkv_bias=family == "qwen2",
        rope_scaling=_scaling(rope, where),
    )


def _scaling(rope: dict[str, Any], where: str) -> tuple[float, float, float, float] | None:
    kind = rope.get("rope_type") or rope.get("type") or "default"
    if kind == "default":
        return None
    if kind != "llama3":
        raise FolderError(f"{where}: rotary scaling {kind} is not computed here; known is llama3")
    return (
        float(rope["factor"]),
        float(rope["low_freq_factor"]),
        float(rope["high_freq_factor"]),
        float(rope["original_max_position_embeddings"]),
    )


def end_tokens(folder: Path) -> tuple[int, ...]:
    """The tokens that end an answer."""
    for name in ("generation_config.json", "config.json"):
        if (folder / name).is_file():
            ends = read_json(folder / name).get("eos_token_id")
            if ends is not None:
                return tuple(ends) if isinstance(ends, list) else (ends,)
    raise FolderError(f"target.path: {folder}: neither config names eos_token_id")


def load_decoder(
    folder: Path, shape: Shape, device: torch.device, dtype: torch.dtype, *, ends_only: bool
) -> Decoder:
    """The decoder with `folder`'s weights; with `ends_only` embedding and head alone.

    Raises FolderError where a weight is missing, of another shape, or unknown.
    """
    with torch.device("meta"):
        decoder = Decoder(shape).to(dtype)
    if ends_only:
        decoder.layers = torch.nn.ModuleList()
    decoder.to_empty(device=device)
    if shape.tied:
        decoder.head.weight = decoder.embed.weight
    wanted = {name: set(parts) for name, parts in _parts(decoder).items()}
    for name, read in _weights(folder):
        place = _place(name)
        if name.endswith("rotary_emb.inv_freq") or (shape.tied and name == "lm_head.weight"):
            continue
        if ends_only and name.startswith("model.layers."):
            continue
        if place is None or place[0] not in wanted:
            raise FolderError(f"target.path: {folder}: weight {name} has no place here")
        _fill(decoder, place, read(), f"target.path: {folder}: weight {name}")
        wanted[place[0]].discard(place[1])
    missing = sorted(name for name, parts in wanted.items() if parts)
    if missing:
        raise FolderError(f"target.path: {folder}: has no weights for {', '.join(missing[:4])}")
    return decoder


def digest_of(folder: Path) -> str:
    """Identifies the weights by config, sizes, and beginning, middle and end of each file."""
    found = hashlib.sha256((folder / "config.json").read_bytes())
    for file in sorted(folder.glob("*.safetensors")):
        size = file.stat().st_size
        found.update(f"{file.name} {size}".encode())
        with file.open("rb") as handle:
            for at in (0, size // 2, max(0, size - SAMPLE_BYTES)):
                handle.seek(at)
                found.update(handle.read(SAMPLE_BYTES))
    return found.hexdigest()[:16]


def read_json(path: Path) -> dict[str, Any]:
    """The object in `path`. Raises FolderError."""
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FolderError(f"target.path: {path}: cannot be read ({error.strerror})") from error
    except ValueError as error:
        raise FolderError(f"target.path: {path}: not JSON: {error}") from error
    return content


LAYER_PLACES = {
    "input_layernorm.weight": ("input_norm.weight", 0),
    "post_attention_layernorm.weight": ("post_norm.weight", 0),
    "self_attn.q_norm.weight": ("q_norm.weight", 0),
    "self_attn.k_norm.weight": ("k_norm.weight", 0),
    "self_attn.q_proj.weight": ("wq.weight", 0),
    "self_attn.q_proj.bias": ("wq.bias", 0),
    "self_attn.k_proj.weight": ("wkv.weight", 0),
    "self_attn.k_proj.bias": ("wkv.bias", 0),
    "self_attn.v_proj.weight": ("wkv.weight", 1),
    "self_attn.v_proj.bias": ("wkv.bias", 1),
    "self_attn.o_proj.weight": ("wo.weight", 0),
    "mlp.gate_proj.weight": ("ffn.gate_up.weight", 0),
    "mlp.up_proj.weight": ("ffn.gate_up.weight", 1),
    "mlp.down_proj.weight": ("ffn.down.weight", 0),
}
"""Their name in a layer -> ours, and which half of it where two are one matrix here."""
OUTER_PLACES = {
    "model.embed_tokens.weight": ("embed.weight", 0),
    "model.norm.weight": ("norm.weight", 0),
    "lm_head.weight": ("head.weight", 0),
}


def _place(name: str) -> tuple[str, int] | None:
    if not name.startswith("model.layers."):
        return OUTER_PLACES.get(name)
    number, _, inner = name.removeprefix("model.layers.").partition(".")
    place = LAYER_PLACES.get(inner)
    return (f"layers.{number}.{place[0]}", place[1]) if place else None


def halves(name: str) -> int:
    """How many of their weights lie in our weight `name`."""
    return 2 if ".wkv." in name or ".gate_up." in name else 1


def _parts(decoder: Decoder) -> dict[str, range]:
    return {name: range(halves(name)) for name, _ in decoder.named_parameters()}


@torch.no_grad()
def _fill(decoder: Decoder, place: tuple[str, int], weight: Tensor, what: str) -> None:
    name, half = place
    mine = decoder.get_parameter(name)
    slot = mine.chunk(halves(name))[half]
    if slot.shape != weight.shape:
        raise FolderError(f"{what}: is {tuple(weight.shape)}, not {tuple(slot.shape)}")
    slot.copy_(weight)


def _weights(folder: Path) -> Iterator[tuple[str, Callable[[], Tensor]]]:
    """Each weight's name, and how to read it alone."""
    try:
        from safetensors import safe_open
    except ImportError as error:
        raise FolderError(
            "target.path: a Hugging Face folder needs safetensors: "
            "pip install -r trainer/requirements-hf.txt"
        ) from error
    index = folder / "model.safetensors.index.json"
    names = {"model.safetensors"}
    if index.is_file():
        names = set(read_json(index)["weight_map"].values())
    for file in sorted(names):
        path = folder / file
        if not path.is_file():
            raise FolderError(f"target.path: {path}: no such file; weights must be safetensors")
        with safe_open(path, framework="pt", device="cpu") as content:
            for name in content.keys():  # noqa: SIM118  # not a mapping: it has keys() only
                yield name, lambda name=name: content.get_tensor(name)  # type: ignore[misc]
