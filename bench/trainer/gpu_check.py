"""The CUDA path against float64 on random inputs, and flex attention's two forms.

gpu_bench.py runs it in processes of their own.
"""

import dataclasses
import itertools
import json
import statistics
from typing import Any

from bench.trainer.gpu_step import SIZES, Loop, graphs, make_rows, make_shape


def check() -> dict[str, Any]:
    """The CUDA path against the float64 table: loss, gradients, hits, optimizer."""
    import torch

    from trainer.blocks import Rows, draw_anchors, make_blocks
    from trainer.config import LossConfig
    from trainer.drafter import assert_never_dense, attend_dense, new_drafter
    from trainer.masks import dense_mask
    from trainer.step import Frozen, batch_loss, pack_batch, plan_for

    cuda, cpu = torch.device("cuda"), torch.device("cpu")
    torch.manual_seed(0)
    size = SIZES["small"] | {"hidden": 256, "ffn": 512, "heads": 8, "kv_heads": 2, "vocab": 1000}
    shape = make_shape(size)
    length, num, block = 640, 40, 16
    doc = torch.full((2, length), -1)
    doc[0, :300], doc[0, 300:630], doc[1, :] = 0, 1, 0
    own = torch.rand(2, length) > 0.05
    rows = Rows(
        tokens_BS=torch.randint(999, (2, length)), doc_BS=doc,
        position_BS=torch.arange(length).expand(2, -1).contiguous(), supervised_BS=own & (doc >= 0),
    )  # fmt: skip
    generators = [torch.Generator().manual_seed(i) for i in range(2)]
    anchor, keep = draw_anchors(rows, 17, num, generators)
    blocks = make_blocks(rows, anchor, keep, block, 999)
    found: dict[str, Any] = {"kept": int(keep.sum()), "slots": keep.numel()}
    base = torch.randn(2, 1000, 256, dtype=torch.float64) * 0.2
    features = torch.randn(2, length, 3 * 256, dtype=torch.float64)
    for kind in ("decay", "dpace"):
        for window in (0, 100):
            config = LossConfig(kind=kind, gamma=7.0, chunk_rows=240)
            grads: dict[str, Any] = {}
            for path in ("float64", "bf16 table", "bf16 flex"):
                dtype = torch.float64 if path == "float64" else torch.bfloat16
                drafter = new_drafter(shape, 3, 3, seed=2, device=cpu, dtype=torch.bfloat16)
                drafter.to(device=cuda, dtype=dtype)
                tables = base.to(torch.bfloat16).to(device=cuda, dtype=dtype)
                frozen = Frozen(embed_Vh=tables[0], head_Vh=tables[1])
                batch = pack_batch(rows, blocks, block=block, window=window, device=cuda).to(cuda)
                if path == "bf16 flex":
                    drafter.compile_layers()
                else:
                    mask = dense_mask(anchor, keep, doc, block, window).to(cuda)
                    batch = dataclasses.replace(batch, attend=attend_dense(mask))
                plan = plan_for(blocks, config, cuda)
                total, _, hit = batch_loss(
                    drafter, frozen, features.to(torch.bfloat16).to(cuda, dtype), batch,
                    plan.to(cuda), config,
                )  # fmt: skip
                loss = total / plan.denominator
                with torch.autograd.set_multithreading_enabled(False):
                    loss.backward()
                flat = torch.cat([p.grad.double().flatten() for p in drafter.parameters()])
                grads[path] = (float(loss), flat, hit)
            wanted = grads["float64"]
            for path in ("bf16 table", "bf16 flex"):
                got = grads[path]
                found[f"{kind} window {window} {path}"] = {
                    "loss": got[0],
                    "loss_relative_error": abs(got[0] - wanted[0]) / wanted[0],
                    "gradient_relative_error": float(
                        (got[1] - wanted[1]).norm() / wanted[1].norm()
                    ),
                    "hits_differ": int((got[2] != wanted[2]).sum()),
                }
    assert_never_dense()
    found["optimizer_largest_difference"] = _check_optimizer()
    found["replay"] = _check_replay()
    found["graphs"] = graphs()
    return found


def _check_replay() -> dict[str, Any]:
    """Six steps by CUDA graph against the same six launched one by one: losses and masters."""
    import torch

    results = []
    for replayed in (False, True):
        torch.manual_seed(5)
        loop = Loop(SIZES["small"] | {"vocab": 4096}, 1, replayed=replayed)
        losses = [loop.step().read() for _ in range(6)]
        loop.ahead.close()
        results.append((losses, [m.clone() for m in loop.optimizer.masters], loop.replay))
    pairs = zip(results[0][1], results[1][1], strict=True)
    return {
        "losses_and_norms": [results[0][0][-1], results[1][0][-1]],
        "equal_losses": results[0][0] == results[1][0],
        "largest_difference_of_masters": max(float((a - b).abs().max()) for a, b in pairs),
        "recorded": len(results[1][2]._recorded),
    }


def _check_optimizer() -> dict[str, float]:
    """Five steps of the kernel against the same five on the CPU."""
    import torch

    from trainer.config import OptimConfig
    from trainer.optim import AdamW

    states = {}
    for place in ("cpu", "cuda"):
        generator = torch.Generator().manual_seed(4)
        parameters = [
            torch.nn.Parameter(torch.randn(s, generator=generator).to(place, torch.bfloat16))
            for s in ((300, 70), (33,), (2048, 5))
        ]
        optimizer = AdamW(parameters, OptimConfig(lr=1e-2, weight_decay=0.1))
        for _ in range(5):
            for p in parameters:
                p.grad = torch.randn(p.shape, generator=generator).to(place, torch.bfloat16)
            norm = optimizer.step(1e-2)
        states[place] = (
            [m.cpu() for m in optimizer.masters]
            + [p.detach().cpu().float() for p in parameters]
            + [norm.cpu()]
        )
    pairs = list(zip(states["cpu"], states["cuda"], strict=True))
    return {
        "masters": max(float((a - b).abs().max()) for a, b in pairs[:3]),
        "weights": max(float((a - b).abs().max()) for a, b in pairs[3:6]),
        "norm": float((pairs[6][0] - pairs[6][1]).abs()),
    }


def attention() -> None:
    """Flex attention alone at the large size: heads of keys shared, and one for each query head.

    Prints each form's milliseconds forward and backward, as one layer of the step has them.
    """
    import torch
    from torch.nn.attention.flex_attention import flex_attention

    from trainer.blocks import draw_anchors
    from trainer.drafter import attend_flex, start_compilers
    from trainer.masks import flex_mask, flex_tables
    from trainer.staging import pack

    start_compilers()
    size = SIZES["large"]
    rows = make_rows(torch, 1, size["context"], size["vocab"])
    generators = [torch.Generator().manual_seed(1)]
    anchor, keep = draw_anchors(rows, size["anchors"], size["anchors"], generators)
    cuda = torch.device("cuda")
    tables = pack(flex_tables(anchor, keep, rows.doc_BS, size["block"], 0), cuda).to(cuda)
    mask = flex_mask(tables, length=size["context"], block=size["block"], window=0)
    queries, keys = size["anchors"] * size["block"], size["context"]
    q = torch.randn(1, size["heads"], queries, size["head_dim"], device="cuda")
    k, v = torch.randn(2, 1, size["kv_heads"], keys + queries, size["head_dim"], device="cuda")
    q, k, v = (x.to(torch.bfloat16).requires_grad_() for x in (q, k, v))

    def shared(q: Any, k: Any, v: Any) -> Any:
        return flex_attention(q, k, v, block_mask=mask, enable_gqa=True)

    for name, form in (("a head for each", attend_flex(mask)), ("shared", shared)):
        run = torch.compile(form, dynamic=False, fullgraph=True)
        spans = []
        for _ in range(12):
            marks = [torch.cuda.Event(enable_timing=True) for _ in range(3)]
            marks[0].record()
            out = run(q, k, v)
            marks[1].record()
            with torch.autograd.set_multithreading_enabled(False):
                torch.autograd.grad(out, (q, k, v), torch.ones_like(out))
            marks[2].record()
            torch.cuda.synchronize()
            spans.append([a.elapsed_time(b) for a, b in itertools.pairwise(marks)])
        forward, backward = (round(statistics.median(s[i] for s in spans[4:]), 3) for i in (0, 1))
        print(json.dumps({name: {"forward_ms": forward, "backward_ms": backward}}), flush=True)
