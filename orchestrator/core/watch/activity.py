"""The second witness of a hang: what a run did while it was silent, and what that says.

Owns the thresholds. How it is looked up is the caller's, what follows vigil.py's.
"""

import operator
import re
from dataclasses import dataclass

from orchestrator.core.parse.nccl_ras import Lag

IDLE_CORES = 0.05
IDLE_GPU_PERCENT = 5.0
BUSY_GPU_PERCENT = 95.0
BUSY_WATTS_PART = 0.45
"""A collective that waits shows 100 % at less than half of the power that work takes."""
_COMPILERS = re.compile(r"_inductor[/.]compile_worker|\bptxas\b|\bcc1plus\b|\bnvcc\b|\bcicc\b")
_VOLATILE = re.compile(r"^(?:Process|Python v).*$|\((?:active|idle)[^)]*\)", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """The second witness: what the run did while it was silent."""

    cpu_cores: float
    """CPU seconds per second, of all its processes."""
    gpu_percents: tuple[float, ...] = ()
    """Of its target's GPUs; empty where they are not seen."""
    power_parts: tuple[float, ...] = ()
    """Power drawn of what each may draw."""
    commands: tuple[str, ...] = ()
    stacks: tuple[str, ...] = ()
    """Of each Python process; empty where nobody could look."""
    later_stacks: tuple[str, ...] = ()
    """The same some seconds later."""
    lags: tuple[Lag, ...] = ()
    """What NCCL says of ranks that are behind; empty where it does not say."""
    later_lags: tuple[Lag, ...] = ()

    @property
    def compiling(self) -> bool:
        """Whether compilers of the run work: a phase, and no hang."""
        return self.cpu_cores > IDLE_CORES and any(_COMPILERS.search(one) for one in self.commands)

    @property
    def idle(self) -> bool:
        """Whether neither CPU nor GPU is used."""
        return self.cpu_cores <= IDLE_CORES and all(
            one < IDLE_GPU_PERCENT for one in self.gpu_percents
        )

    @property
    def waits_on_gpus(self) -> bool:
        """Whether GPUs spin without working and the others rest: a collective that lacks a rank.

        Recorded on two H200: 100 % at 17 % of the power for the rank that waits, 0 % for the one
        that did not come, and a CPU core busy with waiting. Stacks that move say otherwise.
        """
        if len(self.power_parts) != len(self.gpu_percents) or self._moves:
            return False
        spins = [one >= BUSY_GPU_PERCENT for one in self.gpu_percents]
        rests = [one < IDLE_GPU_PERCENT for one in self.gpu_percents]
        cold = all(part < BUSY_WATTS_PART for part in self.power_parts)
        return any(spins) and all(map(operator.or_, spins, rests)) and cold

    @property
    def stands_still(self) -> bool:
        """Whether every stack is where it was while every GPU spins.

        Without the GPUs it says nothing: a loop over data stands on one line for minutes, too.
        """
        spinning = bool(self.gpu_percents) and min(self.gpu_percents) >= BUSY_GPU_PERCENT
        return spinning and bool(self.stacks) and not self._moves

    @property
    def lacks(self) -> Lag | None:
        """What NCCL waits for, where it says the same of the same collective twice."""
        return next((lag for lag in self.lags if lag in self.later_lags), None)

    @property
    def _moves(self) -> bool:
        before, after = ([still(one) for one in each] for each in (self.stacks, self.later_stacks))
        return before != after


def still(stack: str) -> str:
    """A dump of stacks without what differs though nothing moved."""
    return _VOLATILE.sub("", stack).strip()


def said(activity: Activity) -> str:
    """What was done meanwhile, in a few words."""
    words = [f"{activity.cpu_cores:.2f} CPU cores used"]
    if activity.gpu_percents:
        least, most = (f"{of(activity.gpu_percents):.0f}" for of in (min, max))
        words.append(f"GPUs at {least if least == most else f'{least} to {most}'} %")
    if activity.waits_on_gpus:
        words.append("at the power of waiting")
    if (lag := activity.lacks) is not None:
        behind = ", ".join(map(str, lag.ranks))
        words.append(f"NCCL waits for rank {behind} in {lag.operation} {max(lag.counts.values())}")
    if activity.stands_still:
        words.append("every stack stands still")
    if activity.compiling:
        words.append("compilers at work")
    return ", ".join(words)
