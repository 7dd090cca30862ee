"""Attention, loss and gradients against a dense float64 reference written from the method."""

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from trainer.blocks import Blocks, Rows, make_blocks
from trainer.config import LossConfig
from trainer.drafter import Drafter, new_drafter
from trainer.headloss import head_loss, plan_slots
from trainer.layers import Shape
from trainer.step import Batch, Frozen, batch_loss, pack_batch

SHAPE = Shape(
    vocab=23, hidden=12, ffn=20, layers=0, heads=4, kv_heads=2, head_dim=6,
    rope_theta=100.0, eps=1e-6,
)  # fmt: skip
BLOCK = 4
LENGTH = 14


def scene() -> tuple[Drafter, Frozen, Tensor, Rows, Blocks]:
    """A random drafter and batch in float64: two rows, packing, an empty block slot."""
    torch.manual_seed(3)
    doc = torch.tensor([[0] * 8 + [1] * 6, [0] * 12 + [-1] * 2])
    own = torch.tensor([[0, 0] + [1] * 6 + [0] + [1] * 5, [0] + [1] * 11 + [0, 0]]).bool()
    position = torch.tensor([[*range(8), *range(6)], [*range(12), 0, 0]])
    rows = Rows(
        tokens_BS=torch.randint(22, (2, LENGTH)), doc_BS=doc, position_BS=position,
        supervised_BS=own,
    )  # fmt: skip
    anchor = torch.tensor([[2, 5, 9], [1, 8, 8]])
    keep = torch.tensor([[True, True, True], [True, True, False]])
    blocks = make_blocks(rows, anchor, keep, BLOCK, 22)
    drafter = new_drafter(SHAPE, 2, 3, seed=5, device=torch.device("cpu"), dtype=torch.float64)
    frozen = Frozen(embed_Vh=torch.randn(23, 12).double(), head_Vh=torch.randn(23, 12).double())
    return drafter, frozen, torch.randn(2, LENGTH, 36).double(), rows, blocks


def staged(rows: Rows, blocks: Blocks) -> Batch:
    """The batch as the drafter reads it."""
    cpu = torch.device("cpu")
    return pack_batch(rows, blocks, block=BLOCK, window=0, device=cpu).to(cpu)


def norm(x: Tensor, weight: Tensor) -> Tensor:
    """RMSNorm, spelled out."""
    return x / (x.pow(2).mean(-1, keepdim=True) + SHAPE.eps).sqrt() * weight


def turned(x_hD: Tensor, position: int) -> Tensor:
    """Rotary embedding of one position, spelled out pair by pair."""
    half = SHAPE.head_dim // 2
    out = []
    for i in range(half):
        angle = position * SHAPE.rope_theta ** (-2 * i / SHAPE.head_dim)
        a, b = x_hD[:, i], x_hD[:, i + half]
        out.append(
            (a * math.cos(angle) - b * math.sin(angle), b * math.cos(angle) + a * math.sin(angle))
        )
    return torch.stack([first for first, _ in out] + [second for _, second in out], dim=-1)


def reference_hidden(
    drafter: Drafter, frozen: Frozen, features: Tensor, rows: Rows, row: int, anchor: int
) -> Tensor:
    """Final hidden states of one block, query by query, from the method's equations."""
    tokens = [int(rows.tokens_BS[row, anchor])] + [22] * (BLOCK - 1)
    x = frozen.embed_Vh[tokens]
    start = int(rows.position_BS[row, anchor])
    seen = [t for t in range(anchor) if rows.doc_BS[row, t] == rows.doc_BS[row, anchor]]
    context = norm(features[row, seen] @ drafter.fc.weight.T, drafter.hidden_norm.weight)
    positions = [int(rows.position_BS[row, t]) for t in seen] + [start + j for j in range(BLOCK)]
    heads, kv, width = SHAPE.heads, SHAPE.kv_heads, SHAPE.head_dim
    layers: Any = drafter.layers
    for layer in layers:
        y = norm(x, layer.input_norm.weight)
        both = torch.cat((context, y)) @ layer.wkv.weight.T
        keys = norm(both[:, : kv * width].reshape(-1, kv, width), layer.k_norm.weight)
        keys = torch.stack([turned(k, p) for k, p in zip(keys, positions, strict=True)])
        values = both[:, kv * width :].reshape(-1, kv, width)
        mixed = []
        for j in range(BLOCK):
            q = norm((y[j] @ layer.wq.weight.T).reshape(heads, width), layer.q_norm.weight)
            q = turned(q, start + j)
            parts = []
            for head in range(heads):
                group = head // (heads // kv)
                score = keys[:, group] @ q[head] / math.sqrt(width)
                parts.append(score.softmax(0) @ values[:, group])
            mixed.append(torch.cat(parts))
        x = x + torch.stack(mixed) @ layer.wo.weight.T
        z = norm(x, layer.post_norm.weight) @ layer.ffn.gate_up.weight.T
        x = x + (F.silu(z[:, : SHAPE.ffn]) * z[:, SHAPE.ffn :]) @ layer.ffn.down.weight.T
    return norm(x, drafter.norm.weight)


def reference_loss(config: LossConfig) -> tuple[Tensor, dict[str, Tensor]]:
    """The loss and its gradients, slot by slot."""
    drafter, frozen, features, rows, blocks = scene()
    total, denominator = torch.zeros(()).double(), 0.0
    for row in range(2):
        for n in range(3):
            if not blocks.keep_BN[row, n]:
                continue
            anchor = int(blocks.anchor_BN[row, n])
            logits = (
                reference_hidden(drafter, frozen, features, rows, row, anchor) @ frozen.head_Vh.T
            )
            entropies = []
            for j in range(1, BLOCK):
                at = anchor + j
                if at >= LENGTH or rows.doc_BS[row, at] != rows.doc_BS[row, anchor]:
                    break
                if not rows.supervised_BS[row, at]:
                    break
                entropies.append(F.cross_entropy(logits[j], rows.tokens_BS[row, at]))
            weights = [math.exp(-j / config.gamma) for j in range(len(entropies))]
            if config.kind == "dpace":
                sure = [
                    (1 - config.alpha) * math.exp(-float(e.detach())) + config.alpha
                    for e in entropies
                ]
                prefix = [math.prod(sure[: i + 1]) for i in range(len(sure))]
                weights = [sum(prefix[j:]) for j in range(len(sure))]
            denominator += 1.0 if config.kind == "dpace" else sum(weights)
            total = total + sum(w * e for w, e in zip(weights, entropies, strict=True))
    loss = total / denominator
    loss.backward()
    grads = {k: p.grad for k, p in drafter.named_parameters() if p.grad is not None}
    return loss.detach(), grads


@pytest.mark.parametrize("kind", ["decay", "dpace"])
@pytest.mark.parametrize(("chunk", "pad"), [(4, False), (5, True), (100, False)])
def test_loss_and_gradients_equal_the_dense_reference(kind: str, chunk: int, pad: bool) -> None:
    """However the slots are cut into chunks, loss and every gradient are the reference's."""
    config = LossConfig(kind=kind, gamma=3.0, chunk_rows=chunk)
    wanted, wanted_grads = reference_loss(config)
    drafter, frozen, features, rows, blocks = scene()
    plan = plan_slots(blocks, config, pad=pad)
    batch = staged(rows, blocks)
    summed, _, _ = batch_loss(drafter, frozen, features, batch, plan, config)
    loss = summed / plan.denominator
    loss.backward()
    torch.testing.assert_close(loss.detach(), wanted, rtol=1e-12, atol=0)
    assert set(wanted_grads) == {name for name, _ in drafter.named_parameters()}
    for name, parameter in drafter.named_parameters():
        torch.testing.assert_close(
            parameter.grad, wanted_grads[name], rtol=1e-9, atol=1e-12, msg=name
        )


def test_head_loss_says_which_slots_were_hit() -> None:
    """A slot is hit where its label has the highest logit; padding never is."""
    _, frozen, _, _, blocks = scene()
    config = LossConfig(chunk_rows=5)
    plan = plan_slots(blocks, config, pad=True)
    hidden = frozen.head_Vh[plan.label_M] * 100
    _, entropy, hit = head_loss(hidden, frozen.head_Vh, plan, config)
    truth = (hidden @ frozen.head_Vh.T).argmax(-1) == plan.label_M
    assert hit.tolist() == (truth & (plan.weight_M > 0)).tolist()
    assert int(hit.sum()) > 0
    assert plan.rows < len(entropy)


def test_denominators_are_added_before_dividing() -> None:
    """Two halves of a batch, summed and divided once, equal the whole batch."""
    config = LossConfig(chunk_rows=100)
    drafter, frozen, features, rows, blocks = scene()
    plan = plan_slots(blocks, config, pad=False)
    batch = staged(rows, blocks)
    whole, _, _ = batch_loss(drafter, frozen, features, batch, plan, config)
    total, denominator = 0.0, 0.0
    for row in range(2):
        part_rows = Rows(**{k: getattr(rows, k)[row : row + 1] for k in Rows.__slots__})
        part = Blocks(**{k: getattr(blocks, k)[row : row + 1] for k in Blocks.__slots__})
        part_plan = plan_slots(part, config, pad=False)
        part_batch = staged(part_rows, part)
        summed, _, _ = batch_loss(
            drafter,
            frozen,
            features[row : row + 1],
            part_batch,
            part_plan,
            config,
        )
        total += float(summed.detach())
        denominator += part_plan.denominator
    assert total / denominator == pytest.approx(float(whole.detach()) / plan.denominator, rel=1e-12)
