"""The same drafter step by the peers' own classes: specforge and speculators.

It owns how their models and optimizers are put together as their trainers do it; gpu_bench.py
runs it in processes of their own. Neither is a dependency: PEERS names a folder in which
their wheels are unpacked (`unzip -d`), together with what they import and the machine
lacks. What they import only for data or serving may be absent.
"""

import importlib.abc
import importlib.machinery
import json
import os
import statistics
import sys
import time
import types
from collections.abc import Callable, Sequence
from typing import Any

from bench.trainer.gpu_step import SIZES

UNUSED = {"datasets", "hs_connectors", "openai"}
"""Imported by the peers, never called in a training step on given features."""


class _Absent(types.ModuleType):
    """Stands for a module of which no step uses anything."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


class _Absences(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the modules of UNUSED that are not there; must come last."""

    def find_spec(
        self, fullname: str, _path: Sequence[str] | None, _target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname.split(".")[0] not in UNUSED:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return _Absent(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        module.__path__ = []


def _config(size: dict[str, Any]) -> Any:
    from transformers.models.qwen3.configuration_qwen3 import Qwen3Config

    return Qwen3Config(
        vocab_size=size["vocab"], hidden_size=size["hidden"], intermediate_size=size["ffn"],
        num_hidden_layers=size["layers"], num_attention_heads=size["heads"],
        num_key_value_heads=size["kv_heads"], head_dim=size["head_dim"],
        max_position_embeddings=40960, rope_theta=1e6,
        layer_types=["full_attention"] * size["layers"],
    )  # fmt: skip


def _specforge(size: dict[str, Any], rows: int, device: str) -> Callable[[], Any]:
    import torch
    from specforge.algorithms.common.dflash_family_model import OnlineDFlashModel
    from specforge.modeling.draft.dflash import DFlashDraftModel
    from specforge.optimizer import BF16Optimizer

    config = _config(size)
    config._attn_implementation = "flex_attention"
    config.block_size, config.num_target_layers = size["block"], 36
    config.dflash_config = {
        "target_layer_ids": list(range(1, 1 + size["features"])),
        "mask_token_id": size["vocab"] - 1,
    }
    made = {"device": device, "dtype": torch.bfloat16}
    drafter = DFlashDraftModel(config).to(**made)
    head = torch.nn.Linear(size["hidden"], size["vocab"], bias=False, **made).requires_grad_(False)
    embed = torch.nn.Embedding(size["vocab"], size["hidden"], **made).requires_grad_(False)
    model = OnlineDFlashModel(
        drafter, head, embed, size["vocab"] - 1, block_size=size["block"],
        num_anchors=size["anchors"], loss_decay_gamma=7.0,
    )  # fmt: skip
    optimizer = BF16Optimizer(drafter, lr=6e-4, max_grad_norm=1.0, total_steps=10_000)
    shape = (rows, size["context"])
    features = torch.randn(*shape, size["features"] * size["hidden"], **made)
    tokens = torch.randint(size["vocab"] - 1, shape, device=device)
    mask = torch.ones(shape, device=device)

    def step() -> Any:
        loss, _, _ = model(input_ids=tokens, hidden_states=features, loss_mask=mask)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def _speculators(size: dict[str, Any], rows: int, device: str) -> Callable[[], Any]:
    import torch
    from speculators.losses import resolve_loss_config
    from speculators.models.dflash import DFlashDraftModel, DFlashSpeculatorConfig, core

    # Compiled, it had not made its first mask after 200 s (in ptxas).
    core._compiled_create_block_mask = core.create_block_mask
    inner = _config(size)
    inner._attn_implementation = "simple_flex_attention"
    model = DFlashDraftModel(
        DFlashSpeculatorConfig(
            transformer_layer_config=inner, draft_vocab_size=size["vocab"],
            block_size=size["block"], mask_token_id=size["vocab"] - 1,
            aux_hidden_state_layer_ids=list(range(1, 1 + size["features"])),
        )
    ).to(device)  # fmt: skip
    with torch.no_grad():
        for weight in model.parameters():
            if weight.isnan().any():
                weight.normal_(std=0.02)
    optimizer = torch.optim.AdamW(model.named_parameters(), lr=6e-4, weight_decay=0.01)
    # Rows are packed into one, each a document of its own.
    shape = (1, rows * size["context"])
    made = {"device": device, "dtype": torch.bfloat16}
    batch = {
        "hidden_states": torch.randn(*shape, size["features"] * size["hidden"], **made),
        "verifier_last_hidden_states": torch.randn(*shape, size["hidden"], **made),
        "input_ids": torch.randint(size["vocab"] - 1, shape, device=device),
        "loss_mask": torch.ones(shape, device=device),
        "document_ids": torch.arange(rows, device=device).repeat_interleave(size["context"])[None],
        "position_ids": torch.arange(size["context"], device=device).repeat(rows)[None],
    }
    given = {
        # Its fused losses do not compile under torch 2.11: a list that changes in a backward.
        "loss_config": resolve_loss_config("ce", "eager"), "gamma": 7.0,
        "max_anchors": size["anchors"] * rows,
    }  # fmt: skip

    def step() -> Any:
        with torch.autocast(device, dtype=torch.bfloat16):
            _, loss, _ = model(**batch, **given)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.detach()

    return step


def measure(peer: str, name: str, rows: int, device: str = "cuda", steps: int = 25) -> None:
    """Milliseconds a step, memory and time to the first step; prints JSON lines.

    Raises RuntimeError where PEERS names no folder.
    """
    folder = os.environ.get("PEERS")
    if not folder:
        raise RuntimeError("PEERS: name the folder in which the peers' wheels are unpacked")
    sys.path.insert(0, folder)
    sys.meta_path.append(_Absences())
    import torch

    make = {"specforge": _specforge, "speculators": _speculators}[peer]
    step = make(SIZES[name], rows, device)
    first = float(step())
    since = round(time.time() - float(os.environ["BENCH_BEGAN"]), 2)
    print(json.dumps({"first_step_s": since, "first_loss": first}), flush=True)
    for _ in range(3):
        float(step())
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    walls = []
    for _ in range(steps):
        began = time.perf_counter()
        last = float(step())
        walls.append((time.perf_counter() - began) * 1e3)
    found: dict[str, Any] = {"ms": round(statistics.median(walls), 2), "last_loss": last}
    if device == "cuda":
        found["peak_GiB"] = round(torch.cuda.max_memory_allocated() / 2**30, 2)
    size = SIZES[name]
    drafted = rows * size["anchors"] * size["block"]
    found["drafted_tokens_per_s"] = round(drafted / found["ms"] * 1e3)
    print(json.dumps(found), flush=True)
