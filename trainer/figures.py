"""The figures of each step: read when they are there, checked, and written as a line.

It owns the losses and the speed that a run reports, and the NaN guard.
"""

import math
import resource
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any

import torch
from torch import Tensor

from trainer.config import Config
from trainer.runlog import RunLog, step_line
from trainer.staging import Readback


class TrainingError(RuntimeError):
    """Training cannot go on; its text says at which step and why."""


class Pace:
    """Drafted tokens a second, where the host may be one step ahead of the device."""

    def __init__(self) -> None:
        self._ended = -math.inf

    def speed(self, drafted: int, began: float, ended: float) -> float:
        """The speed of a step that was launched at `began` and done by `ended`, in seconds.

        It ran alone from the end of the step before it, or from its own beginning if that
        was later: an evaluation or a checkpoint between the two is nobody's time.
        """
        seconds = ended - max(began, self._ended)
        self._ended = ended
        return drafted / max(seconds, 1e-9)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """A step that is launched and whose figures are not read yet."""

    step: int
    began: float
    lr: float
    figures: Readback
    """Loss, gradient norm, hits."""
    rows: int
    drafted: int
    flops: float


class Figures:
    """What the run has seen so far."""

    def __init__(
        self, config: Config, log: RunLog, clock: Callable[[], float] = monotonic, drafters: int = 1
    ) -> None:
        self._drafters = drafters
        self.first_loss = self.last_loss = self.acceptance = math.nan
        self._config, self._log, self._clock = config, log, clock
        self._pace = Pace()
        self._pending: Pending | None = None

    def launched(
        self, step: int, *, began: float, lr: float, figures: Sequence[Tensor], rows: int,
        drafted: int, flops: float,
    ) -> None:  # fmt: skip
        """Note a step that was just launched, and write the line of the one before it.

        `figures` are loss, gradient norm and hits, on the device; `rows`, `drafted` and `flops`
        are sums over all drafters. Raises as `flush`.
        """
        pending = Pending(
            step=step, began=began, lr=lr, figures=Readback(figures), rows=rows, drafted=drafted,
            flops=flops,
        )  # fmt: skip
        # Where the device is the faster one, the step before was done when this one began: its
        # own launch is this one's time.
        waits = self._pending is not None and not self._pending.figures.there()
        self.flush(None if waits else began)
        self._pending = pending

    def flush(self, ended: float | None = None) -> None:
        """Write the line of the step that was launched last, done at `ended`, seconds, or now.

        Raises TrainingError where its loss or gradient norm is not finite.
        """
        if self._pending is None:
            return
        pending, self._pending = self._pending, None
        loss, norm, hits = pending.figures.read()
        if not math.isfinite(loss) or not math.isfinite(norm):
            raise TrainingError(
                f"loss is nan or infinite at step {pending.step} (loss {loss}, gradient norm "
                f"{norm}); the last checkpoint is from before it: lower optim.lr and resume"
            )
        self.first_loss = loss if math.isnan(self.first_loss) else self.first_loss
        self.last_loss = loss
        ended = self._clock() if ended is None else ended
        speed = self._pace.speed(pending.drafted, pending.began, ended)
        self._log.record(
            "train", pending.step, loss=loss, lr=pending.lr, tokens_per_s=round(speed, 1),
            grad_norm=norm, slot_accuracy=hits / pending.rows, acceptance=self.acceptance,
            memory_bytes=_peak_bytes(), **self._share_of_peak(pending, speed),
        )  # fmt: skip
        total = self._config.total_steps
        if pending.step % self._config.log_every == 0 or pending.step in (1, total):
            walked = None if math.isnan(self.acceptance) else self.acceptance
            self._log.say(
                step_line(
                    pending.step, total, loss=loss, speed=speed, lr=pending.lr, acceptance=walked
                )
            )

    def _share_of_peak(self, pending: Pending, speed: float) -> dict[str, float]:
        # Of a CPU nobody knows the peak.
        if not torch.cuda.is_initialized():
            return {}
        peak = self._config.peak_tflops * 1e12 * self._drafters
        return {"mfu": pending.flops * speed / pending.drafted / peak}

    def state(self) -> dict[str, float]:
        """What a checkpoint keeps of it."""
        return {
            "acceptance": self.acceptance,
            "first_loss": self.first_loss,
            "last_loss": self.last_loss,
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Take over a checkpoint's."""
        self.acceptance = state["acceptance"]
        self.first_loss, self.last_loss = state["first_loss"], state["last_loss"]


def _peak_bytes() -> int:
    if torch.cuda.is_initialized():
        return torch.cuda.max_memory_allocated()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
