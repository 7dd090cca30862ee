"""Tiny random models in the form of a Hugging Face folder, written by the tests."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor

HIDDEN, FFN, HEADS, KV_HEADS, HEAD_DIM, LAYERS = 32, 48, 4, 2, 8, 5
TEMPLATE = (
    "{%- for message in messages %}"
    "{{ '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>' + '\n' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}"
    "{%- if not enable_thinking %}{{ '<think>\n\n</think>\n\n' }}{%- endif %}"
    "{%- endif %}"
)


def write_folder(
    folder: Path, family: str, *, shards: int = 1, **changes: Any
) -> dict[str, Tensor]:
    """Write config, weights and tokenizer; returns the weights under their names there."""
    folder.mkdir(parents=True)
    size = write_tokenizer(folder)
    config = {
        "model_type": family, "hidden_size": HIDDEN, "intermediate_size": FFN,
        "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS, "head_dim": HEAD_DIM, "vocab_size": size + 3,
        "rms_norm_eps": 1e-6, "rope_theta": 1000.0, "hidden_act": "silu",
        "tie_word_embeddings": False, "eos_token_id": size - 1,
    } | changes  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    weights = random_weights(family, config)
    names = list(weights)
    spread = {name: f"model-{i % shards + 1:05d}.safetensors" for i, name in enumerate(names)}
    if shards == 1:
        save_file(weights, folder / "model.safetensors")
        return weights
    for file in set(spread.values()):
        save_file({n: weights[n] for n in names if spread[n] == file}, folder / file)
    index = {"metadata": {}, "weight_map": spread}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return weights


def write_tokenizer(folder: Path) -> int:
    """A byte-level tokenizer with the special tokens of a chat; returns its size."""
    vocabulary = {letter: i for i, letter in enumerate(pre_tokenizers.ByteLevel.alphabet())}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": TEMPLATE}))
    return int(tokenizer.get_vocab_size())


def random_weights(family: str, config: dict[str, Any]) -> dict[str, Tensor]:
    """Random weights of a family, in float32."""
    torch.manual_seed(5)
    q, kv = HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM
    sizes: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (config["vocab_size"], HIDDEN),
        "model.norm.weight": (HIDDEN,),
    }
    if not config["tie_word_embeddings"]:
        sizes["lm_head.weight"] = (config["vocab_size"], HIDDEN)
    for layer in range(LAYERS):
        at = f"model.layers.{layer}."
        attention = at + "self_attn."
        sizes |= {
            at + "input_layernorm.weight": (HIDDEN,),
            at + "post_attention_layernorm.weight": (HIDDEN,),
            attention + "q_proj.weight": (q, HIDDEN),
            attention + "k_proj.weight": (kv, HIDDEN),
            attention + "v_proj.weight": (kv, HIDDEN),
            attention + "o_proj.weight": (HIDDEN, q),
            at + "mlp.gate_proj.weight": (FFN, HIDDEN),
            at + "mlp.up_proj.weight": (FFN, HIDDEN),
            at + "mlp.down_proj.weight": (HIDDEN, FFN),
        }
        if family == "qwen2":
            sizes |= {attention + f"{p}_proj.bias": (q if p == "q" else kv,) for p in "qkv"}
        if family == "qwen3":
            sizes |= {attention + f"{p}_norm.weight": (HEAD_DIM,) for p in "qk"}
    return {
        name: torch.randn(size) * 0.3 + (1.0 if len(size) == 1 else 0.0)
        for name, size in sizes.items()
    }
