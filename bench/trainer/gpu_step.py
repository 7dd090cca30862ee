"""The drafter step of the training loop on given features, and what it costs.

It owns the sizes and the measuring; gpu_bench.py runs it in processes of their own.
"""

import itertools
import json
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

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

    def __init__(
        self, size: dict[str, Any], rows: int, device: str = "cuda", *, replayed: bool = False
    ) -> None:
        import torch

        from trainer.ahead import Ahead
        from trainer.config import LossConfig, OptimConfig
        from trainer.drafter import new_drafter
        from trainer.optim import AdamW
        from trainer.step import Frozen

        self.torch, self.size, self.num_rows = torch, size, rows
        self.device = torch.device(device)
        if device == "cuda":
            self.device = torch.device("cuda", torch.cuda.current_device())
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
        self.ahead = Ahead(self.plan)
        self.count = 0
        self.before_update: Callable[[], None] = lambda: None
        self.replay: Any = None
        if replayed:
            from trainer.replay import Replay

            self.replay = Replay(self.work, self.optimizer.parameters)

    def plan(self, number: int) -> tuple[Any, Any]:
        """Anchors, mask and supervised slots of a step, as the trainer plans them ahead."""
        from trainer.batches import Part
        from trainer.blocks import draw_anchors, make_blocks
        from trainer.staging import pack
        from trainer.step import pack_batch, plan_for

        size = self.size
        generators = [
            self.torch.Generator().manual_seed(number * 100 + i) for i in range(self.num_rows)
        ]
        anchor, keep = draw_anchors(self.rows, size["anchors"], size["anchors"], generators)
        blocks = make_blocks(self.rows, anchor, keep, size["block"], self.shape.vocab - 1)
        packed = pack_batch(self.rows, blocks, block=size["block"], window=0, device=self.device)
        plan = plan_for(blocks, self.loss, self.device)
        tables = pack(plan.tables(), self.device)
        return blocks, Part(
            batch=packed, members=[], plan=plan, tables=tables, drafted=0, pairs=0
        )  # fmt: skip

    def work(self, batch: Any, plan: Any, features: Any, factor: Any) -> Any:
        """Forward and backward of one batch, as the trainer has it."""
        from trainer.step import batch_loss

        total, _, hits = batch_loss(self.drafter, self.frozen, features, batch, plan, self.loss)
        loss = total * factor
        self.mark()
        with self.torch.autograd.set_multithreading_enabled(False):
            loss.backward()
        return loss.detach(), hits.sum()

    def step(self, marks: list[Any] | None = None) -> Any:
        """One step; `marks` gets CUDA events between its phases. Returns the loss to be read."""
        from trainer.staging import Readback

        torch = self.torch

        def mark() -> None:
            if marks is not None and not torch.cuda.is_current_stream_capturing():
                marks.append(torch.cuda.Event(enable_timing=True))
                marks[-1].record()

        self.mark = mark
        self.blocks, part = self.ahead.take(self.count)
        self.count, self.slots = self.count + 1, part.plan
        mark()
        factor = 1 / part.plan.denominator
        if self.replay is not None:
            loss, _ = self.replay.part(part, self.features, factor, first=True)
        else:
            batch, plan = part.batch.to(self.device), part.plan.over(part.tables.to(self.device))
            scale = torch.full((), factor, device=self.device)
            loss, _ = self.work(batch, plan, self.features, scale)
        mark()
        self.before_update()
        norm = self.optimizer.step(1e-4)
        mark()
        return Readback([loss, norm])


def measure(name: str, rows: int, *, profile: bool, replayed: bool = False) -> None:
    """Milliseconds, MFU, memory and time to the first step of one size."""
    import torch

    from trainer.drafter import start_compilers

    cold = {"torch is there": _since()}
    start_compilers()
    cold["compilers called"] = _since()
    size = SIZES[name]
    loop = Loop(size, rows, replayed=replayed)
    torch.cuda.synchronize()
    cold["model is there"] = _since()
    fixed = torch.cuda.memory_allocated()
    first = loop.step().read()[0]
    print(json.dumps({"first_step_s": _since(), "first_loss": first, "cold_s": cold}), flush=True)
    for _ in range(4):
        loop.step()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    walls, phases, losses = [], [], []
    pending = loop.step()
    pending.read()
    pending = loop.step()
    last = time.perf_counter()
    for _ in range(30):
        marks: list[Any] = []
        following = loop.step(marks)
        losses.append(pending.read()[0])
        now = time.perf_counter()
        walls.append((now - last) * 1e3)
        last, pending = now, following
        phases.append(marks)
    torch.cuda.synchronize()
    spans = [[a.elapsed_time(b) for a, b in itertools.pairwise(m)] for m in phases]
    ms = statistics.median(walls[5:])
    flops = _flops(loop, rows)
    params = sum(p.numel() for p in loop.drafter.parameters())
    state = params * (2 + 12 + 2)
    peak = torch.cuda.max_memory_allocated()
    found = {
        "ms": round(ms, 2),
        "ms_all": [round(w, 1) for w in walls],
        # With a graph forward and backward are one.
        "forward_backward_optimizer_ms": [
            round(statistics.median(part), 2) for part in zip(*spans, strict=True)
        ],
        "drafted_tokens_per_s": round(rows * size["anchors"] * size["block"] / ms * 1e3),
        "tflop": round(flops / 1e12, 2),
        "mfu_790": round(flops / ms * 1e3 / 790e12, 4),
        "params": params,
        "peak_GiB": round(peak / 2**30, 2),
        "peak_beyond_weights_gradients_state_GiB": round((peak - state) / 2**30, 2),
        "allocated_before_first_step_GiB": round(fixed / 2**30, 2),
        "losses": [round(x, 4) for x in losses[::6]],
        "graphs": graphs(),
    }
    print(json.dumps(found), flush=True)
    print(json.dumps({"launch_ms": _launch_ms(loop), "compile_s": _compile_s()}), flush=True)
    if profile:
        print(json.dumps({"kernels": _kernels(loop)}), flush=True)
    loop.ahead.close()


def _since() -> float:
    """Seconds since this part's process was started."""
    return round(time.time() - float(os.environ["BENCH_BEGAN"]), 2)


def _compile_s() -> dict[str, float]:
    """Where the compiler's time went, largest first; the entries contain each other."""
    from torch._dynamo.utils import compilation_time_metrics

    spent = {name: round(sum(times), 2) for name, times in compilation_time_metrics.items()}
    return dict(sorted(spent.items(), key=lambda item: -item[1])[:24])


def _flops(loop: Loop, rows: int) -> float:
    from trainer.flops import step_flops

    size = loop.size
    block = size["block"]
    seen = int((loop.blocks.anchor_BN * loop.blocks.keep_BN).sum())
    kept = int(loop.blocks.keep_BN.sum())
    return step_flops(
        loop.shape, layers=size["layers"], features=size["features"], rows=rows,
        context=size["context"], blocks=size["anchors"], block=block,
        pairs=seen * block + kept * block * block, supervised=loop.slots.rows,
    )  # fmt: skip


def graphs() -> dict[str, int]:
    from torch._dynamo.utils import counters

    return dict(counters["stats"])


def _launch_ms(loop: Loop) -> dict[str, float]:
    """Host time to launch one step while the device is idle, and to plan one."""
    launches, plans = [], []
    for number in range(5):
        loop.torch.cuda.synchronize()
        time.sleep(0.05)  # the step after is planned meanwhile
        began = time.perf_counter()
        loop.step()
        launches.append((time.perf_counter() - began) * 1e3)
        loop.torch.cuda.synchronize()
        time.sleep(0.05)
        began = time.perf_counter()
        loop.plan(1000 + number)
        plans.append((time.perf_counter() - began) * 1e3)
    return {
        "launch": round(statistics.median(launches), 2),
        "plan": round(statistics.median(plans), 2),
    }


def _kernels(loop: Loop) -> list[list[Any]]:
    """Device time by kernel in one step, largest first, and the sum."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as profiler:
        loop.step()
        loop.torch.cuda.synchronize()
    rows = [
        [round(e.self_device_time_total / 1e3, 3), e.count, e.key[:110]]
        for e in profiler.key_averages()
        if e.self_device_time_total > 0 and e.device_type == torch.autograd.DeviceType.CUDA
    ]
    rows.sort(reverse=True)
    return [[round(sum(r[0] for r in rows), 2), sum(r[1] for r in rows), "sum"], *rows[:40]]
