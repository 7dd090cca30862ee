"""A part's forward and backward as one CUDA graph: small models wait for the host otherwise.

A graph is recorded for each form that parts come in (how many chunks of supervised slots; the
first part of a step or a later one, which adds to its gradients), at the second part of that
form; after that its tables and features are copied to where the graph reads them, and it is
launched whole. It owns the graphs and what they read and write. One drafter alone uses it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from trainer.batches import Part
from trainer.headloss import Plan
from trainer.step import Batch

MAX_FORMS = 16
SMALL_FLOP = 4e12
"""A part with less arithmetic than this is done before the host has launched it."""

Bounds = tuple[tuple[int, int], ...]
Form = tuple[Bounds, ...]
"""The chunks of a part, after those of the first part of its step where it is not that."""
Work = Callable[[Batch, Plan, Tensor, Tensor], tuple[Tensor, Tensor]]
"""Forward and backward of tables, plan and features, the loss times a factor: loss and hits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A graph, and what it writes."""

    graph: torch.cuda.CUDAGraph
    planned: Tensor
    """Where it reads the plan's tables, whose size is the form's."""
    loss: Tensor
    hits: Tensor
    grads: list[Tensor | None]


class Replay:
    """Runs parts, by a graph where one is recorded."""

    def __init__(self, work: Work, parameters: Sequence[nn.Parameter]) -> None:
        self._work, self._parameters = work, list(parameters)
        self._seen: set[Form] = set()
        self._begun: Form | None = None
        """Of the step's first part, if a graph ran it: later ones add to its gradients."""
        self._recorded: dict[Form, Recorded] = {}
        self._pool = torch.cuda.graph_pool_handle()
        self._inputs: list[Tensor] = []

    def part(
        self, part: Part, features_BSF: Tensor, factor: float, *, first: bool
    ) -> tuple[Tensor, Tensor]:
        """Gradients of a part on the parameters, added to what is there; its loss and hits."""
        device, fresh = features_BSF.device, (part.batch.packed.buffer, features_BSF)
        form: Form = (part.plan.bounds,) if first else (*(self._begun or ((),)), part.plan.bounds)
        if not self._may_run(form, first=first):
            plan = part.plan.over(part.tables.to(device))
            scale = torch.full((), factor, device=device)
            return self._work(part.batch.to(device), plan, features_BSF, scale)
        if not self._inputs:
            self._inputs = [torch.empty_like(x, device=device) for x in fresh]
            self._inputs.append(torch.zeros((), device=device))
        if form not in self._recorded:
            self._recorded[form] = self._record(part, device)
        recorded = self._recorded[form]
        for there, here in zip(self._inputs, fresh, strict=False):
            there.copy_(here, non_blocking=True)
        self._inputs[2].fill_(factor)
        recorded.planned.copy_(part.tables.buffer, non_blocking=True)
        recorded.graph.replay()
        for parameter, grad in zip(self._parameters, recorded.grads, strict=True):
            parameter.grad = grad
        return recorded.loss.clone(), recorded.hits.clone()

    def _may_run(self, form: Form, *, first: bool) -> bool:
        """Whether a graph does it: there is one, or may now be."""
        can = form in self._recorded or (
            form in self._seen and len(self._recorded) < MAX_FORMS and (first or bool(self._begun))
        )
        self._seen.add(form)
        if first:
            self._begun = form if can else None
        return can

    def _record(self, part: Part, device: torch.device) -> Recorded:
        """Record the work on the inputs; nothing runs yet."""
        tables, features, factor = self._inputs
        planned = torch.empty_like(part.tables.buffer, device=device)
        graph = torch.cuda.CUDAGraph()
        # Only this thread's forbidden calls count: the next step is planned beside it.
        with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
            batch = part.batch.laid_out(part.batch.packed.split(tables))
            plan = part.plan.over(part.tables.split(planned))
            loss, hits = self._work(batch, plan, features, factor)
        return Recorded(
            graph=graph, planned=planned, loss=loss, hits=hits,
            grads=[parameter.grad for parameter in self._parameters],
        )  # fmt: skip
