"""Measure the drafter step on one GPU: correctness, milliseconds, memory, cold and warm start.

    python -m bench.trainer.gpu_bench [--budget 530] [--parts check,large1,large1warm,large2,small]

Every part is a process of its own with caches of its own, so that a failure or a segfault
of one loses nothing of the rest, and peaks and cold starts are its own. Prints one JSON
line a part, then one with all of them. Qwen3-8B's size and the small one are those of
docs/lab-notes.md; features are given, every position is supervised, anchors are fresh
each step, AdamW, bfloat16.
"""

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

PARTS = ("check", "large1", "large1warm", "large2", "small")


def driver(parts: list[str], budget_s: float) -> int:
    """Run the parts one after the other and print what they found."""
    ends = time.monotonic() + budget_s
    found: dict[str, Any] = {}
    caches = Path(tempfile.mkdtemp(prefix="trainer-bench-"))
    for part in parts:
        left = ends - time.monotonic()
        if left < 20:
            found[part] = {"error": "no time left"}
            continue
        # `large1warm` starts with what `large1` compiled.
        folder = caches / part.removesuffix("warm")
        env = os.environ | {
            "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
            "TRITON_CACHE_DIR": str(folder / "triton"),
            "BENCH_BEGAN": repr(time.time()),
        }
        argv = [sys.executable, "-m", "bench.trainer.gpu_bench", "--child", part]
        try:
            done = subprocess.run(
                argv, env=env, capture_output=True, text=True, timeout=left, check=False
            )
            lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
            found[part] = json.loads(lines[-1]) if lines else {"error": "no output"}
            if done.returncode:
                found[part] |= {"exit": done.returncode, "stderr": done.stderr[-3000:]}
        except subprocess.TimeoutExpired as late:
            said = late.stdout.decode(errors="replace") if late.stdout else ""
            found[part] = {"error": "out of time", "stdout": said[-2000:]}
        print(json.dumps({part: found[part]}), flush=True)
    print(json.dumps(found))
    out = os.environ.get("OUT")
    if out:
        Path(out, "gpu_bench.json").write_text(json.dumps(found, indent=1))
    return 0


SIZES: dict[str, dict[str, Any]] = {
    "large": {
        "hidden": 4096, "ffn": 12288, "heads": 32, "kv_heads": 8, "head_dim": 128,
        "vocab": 151936, "layers": 5, "features": 5, "anchors": 512, "block": 16,
        "context": 3072, "chunk": 1920,
    },
    "small": {
        "hidden": 1024, "ffn": 3072, "heads": 16, "kv_heads": 8, "head_dim": 64,
        "vocab": 32768, "layers": 3, "features": 3, "anchors": 128, "block": 16,
        "context": 1024, "chunk": 1920,
    },
}  # fmt: skip


def make_shape(size: dict[str, Any]) -> Any:
    """The size as the trainer's Shape."""
    from trainer.layers import Shape

    keys = ("hidden", "ffn", "heads", "kv_heads", "head_dim", "vocab")
    return Shape(**{k: size[k] for k in keys}, layers=0, rope_theta=1e6, eps=1e-6)


def make_rows(torch: Any, rows: int, context: int, vocab: int) -> Any:
    """Rows of one document each, every position supervised."""
    from trainer.blocks import Rows

    return Rows(
        tokens_BS=torch.randint(vocab - 1, (rows, context)),
        doc_BS=torch.zeros(rows, context, dtype=torch.long),
        position_BS=torch.arange(context).expand(rows, -1).contiguous(),
        supervised_BS=torch.ones(rows, context, dtype=torch.bool),
    )


class Loop:
    """The training loop's step on given features."""

    def __init__(self, size: dict[str, Any], rows: int, device: str = "cuda") -> None:
        import torch

        from trainer.config import LossConfig, OptimConfig
        from trainer.drafter import new_drafter
        from trainer.optim import AdamW
        from trainer.step import Frozen

        self.torch, self.size, self.num_rows = torch, size, rows
        self.device = torch.device(device)
        shape = self.shape = make_shape(size)
        bf16 = torch.bfloat16
        self.drafter = new_drafter(
            shape, size["layers"], size["features"], seed=1, device=self.device, dtype=bf16
        )
        if device == "cuda":
            self.drafter.compile_layers()
        self.optimizer = AdamW(self.drafter.parameters(), OptimConfig(lr=6e-4))
        table = torch.randn(2, shape.vocab, shape.hidden, device=self.device, dtype=bf16) * 0.02
        self.frozen = Frozen(embed_Vh=table[0], head_Vh=table[1])
        self.features = torch.randn(
            rows, size["context"], size["features"] * shape.hidden, device=self.device, dtype=bf16
        )
        self.rows = make_rows(torch, rows, size["context"], shape.vocab)
        self.loss = LossConfig(kind="decay", gamma=7.0, chunk_rows=size["chunk"])
        self.count = 0

    def step(self, marks: list[Any] | None = None) -> Any:
        """One step; `marks` gets CUDA events between its phases."""
        from trainer.blocks import draw_anchors, make_blocks
        from trainer.step import batch_loss, plan_for, stage_batch

        torch, size = self.torch, self.size

        def mark() -> None:
            if marks is not None:
                marks.append(torch.cuda.Event(enable_timing=True))
                marks[-1].record()

        generators = [
            torch.Generator().manual_seed(self.count * 100 + i) for i in range(self.num_rows)
        ]
        self.count += 1
        anchor, keep = draw_anchors(self.rows, size["anchors"], size["anchors"], generators)
        blocks = make_blocks(self.rows, anchor, keep, size["block"], self.shape.vocab - 1)
        plan = plan_for(blocks, self.loss, self.device)
        self.blocks, self.plan = blocks, plan
        batch = stage_batch(self.rows, blocks, block=size["block"], window=0, device=self.device)
        mark()
        total, _, _ = batch_loss(
            self.drafter, self.frozen, self.features, batch, plan.to(self.device), self.loss
        )
        mark()
        with torch.autograd.set_multithreading_enabled(False):
            (total / plan.denominator).backward()
        mark()
        self.optimizer.step(1e-4)
        mark()
        return total.detach() / plan.denominator


def measure(name: str, rows: int, *, profile: bool) -> dict[str, Any]:
    """Milliseconds, MFU, memory and time to the first step of one size."""
    size = SIZES[name]
    loop = Loop(size, rows)
    torch = loop.torch
    fixed = torch.cuda.memory_allocated()
    first = float(loop.step())
    began = float(os.environ["BENCH_BEGAN"])
    found: dict[str, Any] = {"first_step_s": round(time.time() - began, 2), "first_loss": first}
    print(json.dumps(found), flush=True)
    for _ in range(4):
        loop.step()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    walls, phases, losses = [], [], []
    pending = None
    last = time.perf_counter()
    for _ in range(25):
        marks: list[Any] = []
        loss = loop.step(marks)
        if pending is not None:
            losses.append(float(pending))
            now = time.perf_counter()
            walls.append((now - last) * 1e3)
            last = now
        pending = loss
        phases.append(marks)
    torch.cuda.synchronize()
    spans = [[a.elapsed_time(b) for a, b in itertools.pairwise(m)] for m in phases]
    ms = statistics.median(walls[1:])
    flops = _flops(loop, rows)
    params = sum(p.numel() for p in loop.drafter.parameters())
    state = params * (2 + 12 + 2)
    peak = torch.cuda.max_memory_allocated()
    found |= {
        "ms": round(ms, 2),
        "ms_all": [round(w, 1) for w in walls],
        "forward_backward_optimizer_ms": [
            round(statistics.median(s[i] for s in spans), 2) for i in range(3)
        ],
        "drafted_tokens_per_s": round(rows * size["anchors"] * size["block"] / ms * 1e3),
        "tflop": round(flops / 1e12, 2),
        "mfu_790": round(flops / ms * 1e3 / 790e12, 4),
        "params": params,
        "peak_GiB": round(peak / 2**30, 2),
        "peak_beyond_weights_gradients_state_GiB": round((peak - state) / 2**30, 2),
        "allocated_before_first_step_GiB": round(fixed / 2**30, 2),
        "losses": [round(x, 4) for x in losses[::6]],
        "graphs": _graphs(),
    }
    found["plan_ms"] = round(_plan_ms(loop), 2)
    if profile:
        found["kernels"] = _kernels(loop)
    return found


def _flops(loop: Loop, rows: int) -> float:
    from trainer.flops import step_flops

    size = loop.size
    block = size["block"]
    seen = int((loop.blocks.anchor_BN * loop.blocks.keep_BN).sum())
    kept = int(loop.blocks.keep_BN.sum())
    return step_flops(
        loop.shape, layers=size["layers"], features=size["features"], rows=rows,
        context=size["context"], blocks=size["anchors"], block=block,
        pairs=seen * block + kept * block * block, supervised=loop.plan.rows,
    )  # fmt: skip


def _graphs() -> dict[str, int]:
    from torch._dynamo.utils import counters

    return dict(counters["stats"])


def _plan_ms(loop: Loop) -> float:
    """Host time to launch one step when the device is idle and far from full."""
    loop.torch.cuda.synchronize()
    began = time.perf_counter()
    loop.step()
    spent = (time.perf_counter() - began) * 1e3
    loop.torch.cuda.synchronize()
    return spent


def _kernels(loop: Loop) -> list[list[Any]]:
    """Device time by kernel in one step, largest first, and the sum."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as profiler:
        loop.step()
        loop.torch.cuda.synchronize()
    rows = [
        [round(e.self_device_time_total / 1e3, 3), e.count, e.key[:110]]
        for e in profiler.key_averages()
        if e.self_device_time_total > 0 and not e.key.startswith(("aten::", "Torch-Compiled"))
    ]
    rows.sort(reverse=True)
    return [[round(sum(r[0] for r in rows), 2), sum(r[1] for r in rows), "sum"], *rows[:45]]


def check() -> dict[str, Any]:
    """The CUDA path against the float64 table: loss, gradients, hits, optimizer."""
    import torch

    from trainer.blocks import Rows, draw_anchors, make_blocks
    from trainer.config import LossConfig
    from trainer.drafter import assert_never_dense, attend_dense, new_drafter
    from trainer.masks import dense_mask
    from trainer.step import Batch, Frozen, batch_loss, plan_for, stage_batch

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
                batch = stage_batch(rows, blocks, block=block, window=window, device=cuda)
                if path == "bf16 flex":
                    drafter.compile_layers()
                else:
                    mask = dense_mask(anchor, keep, doc, block, window).to(cuda)
                    batch = Batch(
                        noise_BQ=batch.noise_BQ, block_position_BQ=batch.block_position_BQ,
                        context_position_BS=batch.context_position_BS, attend=attend_dense(mask),
                    )  # fmt: skip
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
    found["graphs"] = _graphs()
    return found


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


def child(part: str) -> int:
    """Run one part and print its findings as one JSON line."""
    actions: dict[str, Callable[[], dict[str, Any]]] = {
        "check": check,
        "large1": lambda: measure("large", 1, profile=True),
        "large1warm": lambda: measure("large", 1, profile=False),
        "large2": lambda: measure("large", 2, profile=False),
        "small": lambda: measure("small", 1, profile=True),
    }
    try:
        found = actions[part]()
        code = 0
    except Exception:  # noqa: BLE001  # whatever it is, the other parts must go on
        found, code = {"error": traceback.format_exc()[-3500:]}, 1
    import torch

    if torch.cuda.is_available():
        found["card"] = torch.cuda.get_device_name()
    found["torch"] = torch.__version__
    print(json.dumps(found), flush=True)
    return code


def main() -> int:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--budget", type=float, default=530, help="seconds for all parts")
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--child", default="")
    chosen = parser.parse_args()
    if chosen.child:
        return child(chosen.child)
    return driver(chosen.parts.split(","), chosen.budget)


if __name__ == "__main__":
    sys.exit(main())
