"""Hugging Face folders: three families computed as spelled out, every other refused by name."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.trainer.conftest import made
from tests.trainer.folders import HEAD_DIM, HEADS, KV_HEADS, LAYERS, write_folder
from trainer.config import Config, ConfigError, CorpusConfig, DrafterConfig
from trainer.corpus import Answers, sample_answers
from trainer.targets import TargetError, load_target, mask_token
from trainer.words import WordsError

CPU = torch.device("cpu")
LLAMA3 = {
    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}  # fmt: skip


def norm(x: Tensor, weight: Tensor) -> Tensor:
    """RMSNorm, spelled out."""
    return x / (x.pow(2).mean(-1, keepdim=True) + 1e-6).sqrt() * weight


def turned(x_STD: Tensor, scaling: dict[str, Any] | None) -> Tensor:
    """Rotary embedding [heads, S, D], frequency by frequency."""
    out, half = x_STD.clone(), HEAD_DIM // 2
    for i in range(half):
        frequency = 1000.0 ** (-2 * i / HEAD_DIM)
        if scaling:
            length = 2 * math.pi / frequency
            if length > 64 / 1.0:
                frequency /= 8.0
            elif length > 64 / 4.0:
                smooth = (64 / length - 1.0) / (4.0 - 1.0)
                frequency = (1 - smooth) * frequency / 8.0 + smooth * frequency
        angle = torch.arange(x_STD.shape[1]).double() * frequency
        a, b = x_STD[..., i], x_STD[..., i + half]
        out[..., i] = a * angle.cos() - b * angle.sin()
        out[..., i + half] = b * angle.cos() + a * angle.sin()
    return out


def reference(weights: dict[str, Tensor], tokens: list[int], scaling: Any) -> tuple[Tensor, Tensor]:
    """Logits and the output of layer 2, head by head, from the weights' own names."""
    w = {name: tensor.double() for name, tensor in weights.items()}
    x = w["model.embed_tokens.weight"][tokens]
    kept = x
    hidden_past = torch.ones(len(tokens), len(tokens)).tril().bool()
    for layer in range(LAYERS):
        at, y = f"model.layers.{layer}.", norm(x, w[f"model.layers.{layer}.input_layernorm.weight"])
        heads = {}
        for part, count in (("q", HEADS), ("k", KV_HEADS), ("v", KV_HEADS)):
            z = y @ w[f"{at}self_attn.{part}_proj.weight"].T
            z = z + w.get(f"{at}self_attn.{part}_proj.bias", torch.zeros(()))
            z = z.view(len(tokens), count, HEAD_DIM).transpose(0, 1)
            if f"{at}self_attn.{part}_norm.weight" in w:
                z = norm(z, w[f"{at}self_attn.{part}_norm.weight"])
            heads[part] = z if part == "v" else turned(z, scaling)
        mixed = []
        for head in range(HEADS):
            shared = head // (HEADS // KV_HEADS)
            score = heads["q"][head] @ heads["k"][shared].T / math.sqrt(HEAD_DIM)
            score = score.masked_fill(~hidden_past, -math.inf).softmax(-1)
            mixed.append(score @ heads["v"][shared])
        x = x + torch.cat(mixed, dim=-1) @ w[f"{at}self_attn.o_proj.weight"].T
        y = norm(x, w[f"{at}post_attention_layernorm.weight"])
        gate, up = y @ w[f"{at}mlp.gate_proj.weight"].T, y @ w[f"{at}mlp.up_proj.weight"].T
        x = x + (F.silu(gate) * up) @ w[f"{at}mlp.down_proj.weight"].T
        kept = x if layer == 2 else kept
    unembedding = w.get("lm_head.weight", w["model.embed_tokens.weight"])
    return norm(x, w["model.norm.weight"]) @ unembedding.T, kept


@pytest.mark.parametrize(
    ("family", "changes"),
    [
        ("llama", {}),
        ("llama", {"rope_scaling": LLAMA3}),
        ("qwen2", {"tie_word_embeddings": True}),
        ("qwen3", {"shards": 3}),
    ],
)
def test_a_family_computes_what_its_weights_say(
    tmp_path: Path, family: str, changes: dict[str, Any]
) -> None:
    """Logits and features in float64 equal the method written out from the weights' names."""
    weights = write_folder(tmp_path / "model", family, **changes)
    target = load_target(str(tmp_path / "model"), CPU, torch.float64)
    tokens = target.words.encode("def add(a, b): return a + b")
    logits, features = target.decoder(torch.tensor([tokens]), feature_layers=(2,))
    assert logits is not None
    assert features is not None
    wanted, kept = reference(weights, tokens, changes.get("rope_scaling"))
    torch.testing.assert_close(logits[0], wanted, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(features[0], kept, rtol=1e-9, atol=1e-9)


def test_newer_configs_keep_rotary_values_in_one_object(tmp_path: Path) -> None:
    """rope_parameters holds the base and the scaling."""
    rope = {**LLAMA3, "rope_theta": 1000.0}
    weights = write_folder(tmp_path / "model", "llama", rope_theta=None, rope_parameters=rope)
    target = load_target(str(tmp_path / "model"), CPU, torch.float64)
    logits, _ = target.decoder(torch.arange(40)[None])
    assert logits is not None
    wanted, _ = reference(weights, list(range(40)), LLAMA3)
    torch.testing.assert_close(logits[0], wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("family", "changes", "wanted"),
    [
        ("gemma3", {}, "is a model of family gemma3; known are llama, qwen2, qwen3"),
        ("llama", {"attention_bias": True}, "has attention_bias, which is not computed"),
        ("llama", {"rope_scaling": {"type": "yarn", "factor": 4}}, "rotary scaling yarn"),
        ("qwen2", {"use_sliding_window": True}, "has use_sliding_window"),
        ("llama", {"hidden_act": "gelu"}, "hidden_act gelu, not silu"),
        ("llama", {"vocab_size": 999}, r"is \(261, 32\), not \(999, 32\)"),
        ("qwen3", {"num_hidden_layers": 4}, "weight model.layers.4.*has no place here"),
        ("qwen3", {"num_hidden_layers": 6}, "has no weights for layers.5.*"),
    ],
)
def test_what_is_not_computed_is_refused(
    tmp_path: Path, family: str, changes: dict[str, Any], wanted: str
) -> None:
    """The sentence names the folder and what in it cannot be used."""
    folder = tmp_path / "model"
    write_folder(
        folder, "qwen3" if family == "qwen3" else "qwen2" if family == "qwen2" else "llama"
    )
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"model_type": family} | changes))
    with pytest.raises(TargetError, match=wanted) as caught:
        load_target(str(folder), CPU, torch.float32)
    assert str(folder) in str(caught.value)


def test_only_the_ends_are_loaded_for_a_drafter_of_its_own(tmp_path: Path) -> None:
    """A drafter beside other machines' targets holds embedding and head, and no layer."""
    write_folder(tmp_path / "model", "qwen3")
    whole = load_target(str(tmp_path / "model"), CPU, torch.float32)
    ends = load_target(str(tmp_path / "model"), CPU, torch.float32, ends_only=True)
    assert len(ends.decoder.layers) == 0
    assert ends.decoder.shape == whole.decoder.shape
    assert torch.equal(ends.decoder.head.weight, whole.decoder.head.weight)
    assert torch.equal(ends.decoder.embed.weight, whole.decoder.embed.weight)
    assert ends.digest == whole.digest


def test_the_mask_token_is_an_unused_row(tmp_path: Path) -> None:
    """The first row after the tokenizer's; with no such row, one must be named."""
    write_folder(tmp_path / "model", "llama")
    assert load_target(str(tmp_path / "model"), CPU, torch.float32).mask_token == 258
    write_folder(tmp_path / "full", "llama", vocab_size=258)
    full = load_target(str(tmp_path / "full"), CPU, torch.float32)
    with pytest.raises(ConfigError, match=r"drafter.mask_token: every row .* is a word's"):
        mask_token(Config(), full)
    assert mask_token(Config(drafter=DrafterConfig(mask_token=255)), full) == 255


CHATS = [
    {"messages": [{"role": "user", "content": f"question {i}" + "?" * i},
                  {"role": "assistant", "content": "an old answer"}]}
    for i in range(12)
]  # fmt: skip


def chat_config(tmp_path: Path, **changes: Any) -> CorpusConfig:
    """A corpus of twelve conversations, ten of them not held out."""
    file = tmp_path / "chats.jsonl"
    file.write_text("\n".join(json.dumps(chat) for chat in CHATS))
    sizes: dict[str, Any] = {
        "source": str(file), "samples": 50, "prompt_tokens": 80, "answer_tokens": 6,
        "row_tokens": 90,
    } | changes  # fmt: skip
    return CorpusConfig(**sizes)


def test_conversations_are_asked_by_the_folders_own_template(tmp_path: Path) -> None:
    """Prompts end where the answer starts, old answers are not used, thinking is as asked."""
    write_folder(tmp_path / "model", "qwen3")
    target = load_target(str(tmp_path / "model"), CPU, torch.float32)
    for thinking in (False, True):
        answers = Answers(
            target=target, config=chat_config(tmp_path, thinking=thinking), held_out=False,
            seed=1, cache=tmp_path,
        )  # fmt: skip
        documents = made(answers, lambda: None)
        prompts = {target.words.decode(d.tokens[: d.prompt]) for d in documents}
        assert len(prompts) == 10
        opening = "" if thinking else "<think>\n\n</think>\n\n"
        question = "<|im_start|>user\nquestion 3???<|im_end|>\n<|im_start|>assistant\n"
        assert question + opening in prompts


def test_padding_on_the_left_changes_no_answer(tmp_path: Path) -> None:
    """Prompts of several lengths answered together are answered as each alone."""
    write_folder(tmp_path / "model", "qwen3")
    target = load_target(str(tmp_path / "model"), CPU, torch.float64)
    config = CorpusConfig(answer_tokens=8, temperature=0)
    prompts = [target.words.encode(text) for text in ("a", "some words", "a longer prompt here")]
    generator = torch.Generator()
    together = sample_answers(target, prompts, config, generator)
    alone = [sample_answers(target, [prompt], config, generator)[0] for prompt in prompts]
    for one, other in zip(together, alone, strict=True):
        assert one[: len(other)] == other


def test_answers_that_were_made_are_not_made_again_after_a_cut(tmp_path: Path) -> None:
    """Every batch has its file; two shares make the whole, and a lost batch alone is remade."""
    target = load_target("builtin", CPU, torch.float32)
    config = CorpusConfig(
        samples=130, prompt_tokens=8, answer_tokens=4, row_tokens=12, anchors=2, row_anchors=2
    )
    answers = Answers(target=target, config=config, held_out=False, seed=1, cache=tmp_path)
    batches: list[int] = []
    answers.make(lambda: batches.append(0), share=0, shares=2)
    assert not answers.ready()
    answers.make(lambda: batches.append(1), share=1, shares=2)
    assert batches == [0, 0, 1]
    assert answers.ready()
    whole = answers.read()
    (answers.folder / "000001.json").unlink()
    assert made(answers, lambda: batches.append(2)) == whole
    assert batches == [0, 0, 1, 2]


def test_the_byte_level_target_refuses_conversations(tmp_path: Path) -> None:
    """It has no chat template, and says what would do."""
    target = load_target("builtin", CPU, torch.float32)
    answers = Answers(
        target=target, config=chat_config(tmp_path), held_out=False, seed=1, cache=tmp_path
    )
    with pytest.raises(WordsError, match="has no chat template; give lines with `text`"):
        made(answers, lambda: None)
