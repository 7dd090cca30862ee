"""The layout that crashes: each drafter a thread of one process, all calling compiled code.

It trains small drafters on noise, each for itself, in the way the crashing pipeline did:
flex attention compiled (or called directly), create_block_mask, a reentrant checkpoint
round drafter and chunked loss, several context lengths. It shows the race and its
remedies; nothing it trains is of use.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch._dynamo import config as dynamo
from torch.nn.attention import flex_attention as flex
from torch.utils.checkpoint import checkpoint

from trainer.drafter import Attend, Drafter, new_drafter
from trainer.layers import Shape
from trainer.race import flag
from trainer.race.locks import FirstCallLock, ReadersWriterLock

MINI = Shape(
    vocab=4096, hidden=256, ffn=704, layers=0, heads=4, kv_heads=2, head_dim=64,
    rope_theta=1e4, eps=1e-6,
)  # fmt: skip
LAYERS, FEATURES, BLOCK, NUM_BLOCKS = 3, 3, 16, 32
CONTEXTS = (384, 512, 640)
GRAPHS = 64
"""Graphs allowed of one function, of which torch allows eight: two devices, two gradient modes and
four contexts are sixteen. Past the limit attention runs uncompiled and traces at every call, where
no lock around first calls could help."""
LATE_CONTEXT = 768
"""Met only after two thirds of the steps: the recompile that kills a steady neighbour."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to show."""

    threads: int
    steps: int
    remedy: str
    compiled: bool
    """torch.compile(flex_attention), or the direct call, which is dense and traces each time."""
    cuda: bool
    seed: int


def run(plan: Plan) -> list[str]:
    """Run all threads to their end; returns one line for each that died."""
    if not plan.cuda:
        # Backward of flex attention is refused on the CPU only because no kernel is fast there.
        flex._validate_device = lambda *_: None
    if plan.remedy == "thread-local-flag" and not flag.install():
        print("thread-local-flag: this torch has it already; nothing patched", flush=True)
    attention = _attention(plan)
    guard = _guard(plan.remedy)
    drafters = [_Worker(plan, index, attention, guard) for index in range(plan.threads)]
    if plan.remedy == "warmup":
        for number in range(len(CONTEXTS)):
            drafters[0].step(CONTEXTS[number])
    deaths: list[str] = []
    threads = [
        threading.Thread(target=_work, args=(worker, deaths), name=f"drafter-{i}")
        for i, worker in enumerate(drafters)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if plan.compiled and "flex_attention_performance" in flex._WARNINGS_SHOWN:
        deaths.append("flex attention ran uncompiled (dense), though nothing said so")
    if flag.flag_stuck():
        deaths.append("the flag is left set: every later compiled call in this process fails")
    return deaths


def _work(worker: "_Worker", deaths: list[str]) -> None:
    try:
        worker.run()
    except BaseException as error:
        deaths.append(f"{threading.current_thread().name}: {type(error).__name__}: {error}"[:400])
        raise


class _Worker:
    """One drafter, its device and its steps."""

    def __init__(
        self, plan: Plan, index: int, attention: Callable[..., Any], guard: "Guard"
    ) -> None:
        self.plan, self.index, self.attention, self.guard = plan, index, attention, guard
        place = f"cuda:{index % torch.cuda.device_count()}" if plan.cuda else "cpu"
        self.device = torch.device(place)
        self.dtype = torch.bfloat16 if plan.cuda else torch.float32
        self.drafter = new_drafter(
            MINI, LAYERS, FEATURES, seed=plan.seed, device=self.device, dtype=self.dtype
        )
        self.generator = torch.Generator().manual_seed(plan.seed * 1000 + index)
        tables = torch.randn(2, MINI.vocab, MINI.hidden, generator=self.generator) * 0.1
        self.embed, self.head = tables.to(self.device, self.dtype)

    def run(self) -> None:
        """All steps, the late context among the last third."""
        dynamo.recompile_limit = GRAPHS  # torch 2.13 keeps it for each thread
        if self.plan.cuda:
            torch.cuda.set_device(self.device)
        for number in range(self.plan.steps):
            late = number >= 2 * self.plan.steps // 3 and (number + self.index) % 2 == 0
            began = time.monotonic()
            length = LATE_CONTEXT if late else CONTEXTS[(number + self.index) % len(CONTEXTS)]
            loss = self.step(length)
            spent = time.monotonic() - began
            print(
                f"[drafter {self.index}] step {number + 1}/{self.plan.steps}  loss {loss:.4f}  "
                f"context {length}  {spent:.2f} s",
                flush=True,
            )

    def step(self, length: int) -> float:
        """Forward, backward and a plain update on noise of one context length."""
        with self.guard((length, str(self.device), self.dtype)):
            anchors = torch.randint(length, (1, NUM_BLOCKS), generator=self.generator)
            mask = _block_mask(anchors.sort().values.to(self.device), length, self.device)
            features = torch.randn(1, length, FEATURES * MINI.hidden, generator=self.generator).to(
                self.device, self.dtype
            )
            features.requires_grad_()  # a reentrant checkpoint needs an input with a gradient
            tokens = torch.randint(MINI.vocab, (1, NUM_BLOCKS * BLOCK), generator=self.generator)

            def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
                out: Tensor = self.attention(q, k, v, block_mask=mask, enable_gqa=True)
                return out

            loss = checkpoint(
                _chunked_loss, self.drafter, self.embed, self.head, features,
                tokens.to(self.device), attend, use_reentrant=True,
            )  # fmt: skip
            loss.backward()
            with torch.no_grad():
                for parameter in self.drafter.parameters():
                    assert parameter.grad is not None
                    parameter.sub_(parameter.grad, alpha=0.01)
                    parameter.grad = None
            return float(loss.detach())


def _chunked_loss(
    drafter: Drafter, embed: Tensor, head: Tensor, features: Tensor, tokens: Tensor, attend: Attend
) -> Tensor:
    device = tokens.device
    context = torch.arange(features.shape[1], device=device)[None]
    slots = torch.arange(tokens.shape[1], device=device)[None]
    hidden = drafter.norm(drafter(F.embedding(tokens, embed), features, context, slots, attend))
    pairs = zip(hidden[0].split(128), tokens[0].split(128), strict=True)
    losses = [F.cross_entropy((part @ head.T).float(), label) for part, label in pairs]
    return torch.stack(losses).mean()


def _block_mask(anchors: Tensor, length: int, device: torch.device) -> Any:
    def allowed(_batch: Tensor, _head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        owner = query // BLOCK
        inside = (key >= length) & ((key - length) // BLOCK == owner)
        return (key < anchors[0, owner]) | inside

    queries = NUM_BLOCKS * BLOCK
    return flex.create_block_mask(allowed, 1, 1, queries, length + queries, device=str(device))


def _attention(plan: Plan) -> Callable[..., Any]:
    if not plan.compiled:
        return flex.flex_attention
    dynamo.recompile_limit = GRAPHS
    backend = "inductor" if plan.cuda else "aot_eager"
    return torch.compile(flex.flex_attention, dynamic=False, backend=backend)


Guard = Callable[[Hashable], AbstractContextManager[None]]


def _guard(remedy: str) -> Guard:
    if remedy == "lock":
        return FirstCallLock().step
    if remedy == "rwlock":
        return ReadersWriterLock().step
    return lambda _key: contextlib.nullcontext()
