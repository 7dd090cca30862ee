"""Muon: matrices are moved by their momentum made orthogonal, everything else by AdamW.

Newton-Schulz on all matrices is more arithmetic than the step itself, so each drafter does
its share of them and all get all. It owns this rule; clipping and AdamW are optim.py's.

    Jordan et al., https://kellerjordan.github.io/posts/muon/; the scale by which an AdamW rate
    serves: Liu et al., arXiv 2502.16982.
"""

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor, nn

from trainer.config import OptimConfig
from trainer.optim import AdamW, clipping, master_of, write_back

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
ITERATIONS = 5
MOMENTUM = 0.95
RMS = 0.2
"""Root mean square of AdamW's update, which Muon's is scaled to."""

Spread = Callable[[Sequence[Tensor], Callable[[int], None]], None]
"""Fills each tensor by its number, on one drafter, and gives it to all."""


def alone(tensors: Sequence[Tensor], fill: Callable[[int], None]) -> None:
    """The spread of one drafter: it fills all."""
    for number in range(len(tensors)):
        fill(number)


class Muon:
    """One update for all parameters: Muon on matrices, AdamW on the rest and on `plain`."""

    def __init__(
        self, parameters: Iterable[nn.Parameter], config: OptimConfig, *,
        spread: Spread = alone, plain: Sequence[Tensor] = (),
    ) -> None:  # fmt: skip
        self.config = config
        self.parameters = list(parameters)
        kept = {id(parameter) for parameter in plain}
        self.matrices = [p for p in self.parameters if p.dim() == 2 and id(p) not in kept]
        moved = {id(parameter) for parameter in self.matrices}
        self.rest = AdamW([p for p in self.parameters if id(p) not in moved], config)
        self.masters = [master_of(p) for p in self.matrices]
        self.momenta = [torch.zeros_like(master) for master in self.masters]
        self._spread = spread

    @torch.no_grad()
    def step(self, lr: float) -> Tensor:
        """Clip, update and drop the gradients; returns their norm before clipping."""
        norm, scale = clipping(self.parameters, self.config.clip)
        self.rest.apply(lr, scale)
        updates = []
        for parameter, momentum in zip(self.matrices, self.momenta, strict=True):
            assert parameter.grad is not None
            grad = parameter.grad.to(momentum.dtype) * scale
            momentum.lerp_(grad, 1 - MOMENTUM)
            updates.append(grad.lerp(momentum, MOMENTUM).to(parameter.dtype))
            parameter.grad = None

        def fill(number: int) -> None:
            updates[number].copy_(orthogonal(updates[number]))

        self._spread(updates, fill)
        keep = 1 - lr * self.config.weight_decay
        for parameter, master, update in zip(self.matrices, self.masters, updates, strict=True):
            size = RMS * max(update.shape) ** 0.5
            master.mul_(keep).add_(update.to(master.dtype), alpha=-lr * size)
            write_back(parameter, master)
        return norm

    def state(self) -> dict[str, object]:
        """What a checkpoint needs."""
        return {"masters": self.masters, "momenta": self.momenta, "rest": self.rest.state()}

    @torch.no_grad()
    def load_state(self, state: dict[str, object]) -> None:
        """Take over a checkpoint's state, parameters included."""
        for name in ("masters", "momenta"):
            saved = state[name]
            assert isinstance(saved, list)
            for mine, other in zip(getattr(self, name), saved, strict=True):
                mine.copy_(other)
        for parameter, master in zip(self.matrices, self.masters, strict=True):
            write_back(parameter, master)
        rest = state["rest"]
        assert isinstance(rest, dict)
        self.rest.load_state(rest)


def new_optimizer(
    parameters: Iterable[nn.Parameter], config: OptimConfig, spread: Spread = alone
) -> AdamW | Muon:
    """The optimizer that the configuration names."""
    if config.kind == "muon":
        return Muon(parameters, config, spread=spread)
    return AdamW(parameters, config)


def orthogonal(x_mn: Tensor) -> Tensor:
    """`x` with all its singular values near 1, by five steps of a quintic iteration."""
    a, b, c = COEFFICIENTS
    tall = x_mn.shape[0] > x_mn.shape[1]
    y = x_mn.mT if tall else x_mn
    y = y / (y.norm() + 1e-7)
    for _ in range(ITERATIONS):
        gram = y @ y.mT
        y = a * y + (b * gram + c * gram @ gram) @ y
    return y.mT if tall else y
