"""AdamW over fp32 master weights, the schedule, and clipping.

It owns the optimizer's state and reads gradients where autograd left them; it does not
divide or reduce them. On CUDA adamw_kernel.py does the same in one pass.
"""

import math
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from trainer.config import OptimConfig


def learning_rate(config: OptimConfig, step: int, total_steps: int) -> float:
    """The rate of `step` (counted from 0): linear warm-up, then a cosine down to a tenth."""
    warm = max(1, round(config.warmup * total_steps))
    if step < warm:
        return config.lr * (step + 1) / warm
    share = (step - warm) / max(1, total_steps - warm)
    return config.lr * (0.1 + 0.45 * (1 + math.cos(math.pi * share)))


class AdamW:
    """One update for all parameters; weight decay on matrices only."""

    def __init__(self, parameters: Iterable[nn.Parameter], config: OptimConfig) -> None:
        self.config = config
        self.parameters = list(parameters)
        self.step_count = 0
        self.masters = [master_of(p) for p in self.parameters]
        self.firsts = [torch.zeros_like(m) for m in self.masters]
        self.seconds = [torch.zeros_like(m) for m in self.masters]

    @torch.no_grad()
    def step(self, lr: float) -> Tensor:
        """Clip, update and drop the gradients; returns their norm before clipping.

        The norm stays on the device: nobody waits for it here.
        """
        norm, scale = clipping(self.parameters, self.config.clip)
        self.apply(lr, scale)
        return norm

    @torch.no_grad()
    def apply(self, lr: float, scale: Tensor) -> None:
        """Update by the gradients times `scale`, and drop them."""
        config = self.config
        self.step_count += 1
        correction1 = 1 - config.beta1**self.step_count
        correction2 = 1 - config.beta2**self.step_count
        update = _update
        if self.parameters[0].is_cuda:
            from trainer.adamw_kernel import update
        for parameter, master, first, second in zip(
            self.parameters, self.masters, self.firsts, self.seconds, strict=True
        ):
            decay = config.weight_decay if parameter.dim() > 1 else 0.0
            assert parameter.grad is not None
            update(
                parameter, parameter.grad, master, first, second, scale,
                step_size=lr / correction1, beta1=config.beta1, beta2=config.beta2,
                eps=config.eps, keep=1 - lr * decay, correction2=correction2,
            )  # fmt: skip
            parameter.grad = None

    def state(self) -> dict[str, object]:
        """What a checkpoint needs."""
        return {
            "step_count": self.step_count,
            "masters": self.masters,
            "firsts": self.firsts,
            "seconds": self.seconds,
        }

    @torch.no_grad()
    def load_state(self, state: dict[str, object]) -> None:
        """Take over a checkpoint's state, parameters included."""
        self.step_count = int(state["step_count"])  # type: ignore[call-overload]  # from a file
        for name in ("masters", "firsts", "seconds"):
            saved = state[name]
            assert isinstance(saved, list)
            for mine, other in zip(getattr(self, name), saved, strict=True):
                mine.copy_(other)
        for parameter, master in zip(self.parameters, self.masters, strict=True):
            write_back(parameter, master)


def clipping(parameters: Sequence[nn.Parameter], limit: float) -> tuple[Tensor, Tensor]:
    """The norm of all gradients, and the factor that clips it to `limit`; both stay there."""
    grads = [p.grad for p in parameters if p.grad is not None]
    assert len(grads) == len(parameters), "a parameter got no gradient"
    wide = torch.promote_types(grads[0].dtype, torch.float32)
    # Without the dtype the norm of bfloat16 gradients would itself be rounded to bfloat16.
    norm = torch.stack(list(torch._foreach_norm(grads, 2, dtype=wide))).norm()
    return norm, (limit / (norm + 1e-6)).clamp(max=1.0)


def master_of(parameter: nn.Parameter) -> Tensor:
    """What the optimizer adds to: the parameter itself, or its float32 copy."""
    narrow = parameter.dtype in (torch.bfloat16, torch.float16)
    return parameter.detach().float() if narrow else parameter.detach()


def write_back(parameter: nn.Parameter, master: Tensor) -> None:
    """The parameter as its master is, rounded."""
    if master.data_ptr() != parameter.data_ptr():
        parameter.copy_(master)


def _update(
    weight: Tensor, grad: Tensor, master: Tensor, first: Tensor, second: Tensor, scale: Tensor,
    *, step_size: float, beta1: float, beta2: float, eps: float, keep: float, correction2: float,
) -> None:  # fmt: skip
    clipped = grad.to(master.dtype) * scale
    first.lerp_(clipped, 1 - beta1)
    second.lerp_(clipped * clipped, 1 - beta2)
    if keep != 1:
        master.mul_(keep)
    master.addcdiv_(first, (second / correction2).sqrt_().add_(eps), value=-step_size)
    if master.data_ptr() != weight.data_ptr():
        weight.copy_(master)
